//! Answers that need no other reader: stored files, conditions, schemas, refusals.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Result, ensure};
use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow_ipc::writer::FileWriter;
use libtest_mimic::Trial;
use wirepath_tests::{http, trials};

use crate::TestBed;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_whole_file_is_as_it_is_stored,
        formats_have_entity_tags_of_their_own,
        schemas_and_folders_are_listed,
        requests_that_cannot_be_answered_are_refused,
    ]
}

/// A file of two columns.
fn flights() -> Result<Vec<u8>> {
    let columns: [(_, ArrayRef); 2] = [
        ("carrier", Arc::new(StringArray::from(vec!["LH", "AF"]))),
        ("seats", Arc::new(Int32Array::from(vec![360, 189]))),
    ];
    let batch = RecordBatch::try_from_iter(columns)?;
    let mut bytes = Vec::new();
    let mut writer = FileWriter::try_new(&mut bytes, &batch.schema())?;
    writer.write(&batch)?;
    writer.finish()?;
    Ok(bytes)
}

/// Promise: `wirepath-records` answers with a whole file, or ranges of it, as stored.
fn a_whole_file_is_as_it_is_stored() -> Result<()> {
    let bed = TestBed::new()?;
    let stored = flights()?;
    bed.store("flights.arrow", &stored)?;
    let answer = bed.get("/flights.arrow")?;
    let content_type = answer.header("content-type");
    ensure!(answer.body == stored && content_type == Some("application/vnd.apache.arrow.file"), "{answer:?}");
    let answer = http::request(bed.address, "GET", "/flights.arrow", &[("Range", "bytes=10-19")])?;
    ensure!(answer.status == 206 && answer.body == stored[10..20]);
    Ok(())
}

/// Promise: HEAD and conditional requests work in `wirepath-records`; entity tags identify file and format.
fn formats_have_entity_tags_of_their_own() -> Result<()> {
    let bed = TestBed::new()?;
    let path = bed.store("flights.arrow", &flights()?)?;
    // A file that was just written has weak tags.
    std::fs::File::open(&path)?.set_modified(UNIX_EPOCH + Duration::from_secs(1_700_000_000))?;
    let tag = |query: &str| -> Result<String> {
        let head = http::request(bed.address, "HEAD", &format!("/flights.arrow{query}"), &[])?;
        let body = bed.body(&format!("/flights.arrow{query}"))?;
        ensure!(head.header("content-length") == Some(&body.len().to_string()), "{query}: {head:?}");
        Ok(head.header("etag").unwrap_or_default().to_owned())
    };
    let queries = ["", "?select=seats", "?select=carrier", "?select=twice=seats*2", "?where=seats>200"];
    let tags = queries.into_iter().map(tag).collect::<Result<Vec<_>>>()?;
    for (at, tag) in tags.iter().enumerate() {
        ensure!(tag.starts_with('"') && !tags[..at].contains(tag), "{tags:?}");
    }
    let ask = |name, tag: &str| -> Result<u16> {
        Ok(http::request(bed.address, "GET", "/flights.arrow?select=seats", &[(name, tag)])?.status)
    };
    ensure!(ask("If-None-Match", &tags[1])? == 304 && ask("If-None-Match", &tags[0])? == 200);
    ensure!(ask("If-Match", &tags[2])? == 412 && ask("If-Match", &tags[1])? == 200);
    Ok(())
}

/// Promise: `wirepath-records` lists the columns of a file and the names in a folder as JSON.
fn schemas_and_folders_are_listed() -> Result<()> {
    let bed = TestBed::new()?;
    bed.store("flights.arrow", &flights()?)?;
    std::fs::create_dir(bed.folder.path().join("sub"))?;
    let schema = String::from_utf8(bed.body("/flights.arrow?schema")?)?;
    ensure!(
        schema.contains("\"seats\"") && schema.contains("\"Int32\"") && schema.contains("\"file\""),
        "{schema}"
    );
    let names = String::from_utf8(bed.body("/")?)?;
    ensure!(names.contains("\"flights.arrow\"") && names.contains("\"sub/\""), "{names}");
    Ok(())
}

/// Promise: A request for records that cannot be answered is refused with a status and the reason.
fn requests_that_cannot_be_answered_are_refused() -> Result<()> {
    let bed = TestBed::new()?;
    bed.store("text", b"some text")?;
    bed.store("empty", b"")?;
    bed.store("short.arrow", b"ARROW1\0\0and no footer")?;
    bed.store("short.arrows", &[0xff, 0xff, 0xff, 0xff, 200, 0, 0, 0, 1, 2])?;
    bed.store("old.arrows", &[200, 0, 0, 0, 1, 2, 3, 4])?;
    for (path, status, words) in [
        ("/nothing.arrow", 404, "no such file"),
        ("/../a.arrow", 400, "`..` segment"),
        ("/text", 415, "neither an Arrow IPC file nor a stream"),
        ("/empty", 415, "neither an Arrow IPC file nor a stream"),
        ("/old.arrows", 415, "neither an Arrow IPC file nor a stream"),
        ("/short.arrow?select=a", 415, "no footer: the file is cut off"),
        ("/short.arrows?select=a", 415, "a message that is cut off"),
        ("/text?select=a%20b", 400, "invalid expression"),
        ("/text?columns=a", 400, "unknown parameter columns"),
    ] {
        let answer = bed.get(path)?;
        let text = String::from_utf8_lossy(&answer.body);
        ensure!(answer.status == status && text.contains(words), "{path}: {} {text}", answer.status);
    }
    let answer = http::request(bed.address, "PUT", "/text", &[("Content-Length", "0")])?;
    ensure!(answer.status == 405 && answer.header("allow") == Some("GET, HEAD, OPTIONS, POST"), "{answer:?}");
    Ok(())
}

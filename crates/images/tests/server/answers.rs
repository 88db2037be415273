//! Answers: whole pictures, parts, gray, smaller; refusals.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::{Deadline, http, trials};

use crate::TestBed;
use crate::pictures::{ensure_alike, netpbm, picture, samples};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_whole_picture_is_its_file,
        what_is_made_has_an_entity_tag_of_its_own,
        parts_are_those_of_netpbm,
        gray_is_that_of_netpbm,
        means_are_those_of_netpbm,
        steps_are_done_in_their_order,
        methods_differ,
        requests_that_cannot_be_answered_are_refused,
        folders_are_listed,
        queries_are_in_the_access_log,
    ]
}

/// Promise: `wirepath-images` answers with a whole picture, or ranges of it, as stored.
fn a_whole_picture_is_its_file() -> Result<()> {
    let bed = TestBed::new()?;
    let stored = picture(640, 480, 3, 255);
    bed.store("a.ppm", &stored)?;
    let answer = bed.get("/a.ppm")?;
    ensure!(answer.body == stored && answer.header("content-type") == Some("image/x-portable-pixmap"));
    let answer = http::request(bed.address, "GET", "/a.ppm", &[("Range", "bytes=100-199")])?;
    ensure!(answer.status == 206 && answer.body == stored[100..200]);
    let head = http::request(bed.address, "HEAD", "/a.ppm", &[])?;
    ensure!(head.header("content-length") == Some(&stored.len().to_string()), "{head:?}");
    Ok(())
}

/// Promise: HEAD and conditional requests work for generated pictures; entity tags identify file and steps.
fn what_is_made_has_an_entity_tag_of_its_own() -> Result<()> {
    let bed = TestBed::new()?;
    let path = bed.store("a.ppm", &picture(64, 48, 3, 255))?;
    // A file that was just written has weak tags.
    std::fs::File::open(&path)?
        .set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000))?;
    let tag = |query: &str| -> Result<String> {
        let head = http::request(bed.address, "HEAD", &format!("/a.ppm{query}"), &[])?;
        let body = bed.body(&format!("/a.ppm{query}"))?;
        ensure!(head.header("content-length") == Some(&body.len().to_string()), "{query}: {head:?}");
        Ok(head.header("etag").unwrap_or_default().to_owned())
    };
    let tags = ["", "?gray", "?crop=1,2,3,4", "?crop=1,2,3,4&gray", "?scale=1/2&method=linear"].map(tag);
    let tags = tags.into_iter().collect::<Result<Vec<_>>>()?;
    for (at, tag) in tags.iter().enumerate() {
        ensure!(tag.starts_with('"') && !tags[..at].contains(tag), "{tags:?}");
    }
    let ask = |name, tag: &str| {
        Ok::<_, anyhow::Error>(http::request(bed.address, "GET", "/a.ppm?gray", &[(name, tag)])?.status)
    };
    ensure!(ask("If-None-Match", &tags[1])? == 304 && ask("If-None-Match", &tags[0])? == 200);
    ensure!(ask("If-Match", &tags[2])? == 412 && ask("If-Match", &tags[1])? == 200);
    let answer = http::request(bed.address, "GET", "/a.ppm?gray", &[("Range", "bytes=0-0")])?;
    ensure!(answer.status == 200 && answer.header("accept-ranges") == Some("none"), "{answer:?}");
    Ok(())
}

/// Promise: A crop has exactly the pixels that netpbm cuts out.
fn parts_are_those_of_netpbm() -> Result<()> {
    let bed = TestBed::new()?;
    let pictures =
        [("a", 640, 480, 3, 255), ("b", 333, 77, 3, 65535), ("c", 333, 77, 1, 255), ("d", 9000, 40, 3, 255)];
    for (name, width, height, channels, maximum) in pictures {
        let path = bed.store(name, &picture(width, height, channels, maximum))?;
        let parts = [
            (0, 0, width, height),
            (0, 3, width, height - 5),
            (1, 1, width - 2, height - 2),
            (width / 3, height / 3, width / 2, height / 2),
            (width - 1, height - 1, 1, 1),
            (17, 0, 1, height),
        ];
        for (x, y, width, height) in parts {
            let numbers = [x, y, width, height].map(|number: u32| number.to_string());
            let cut = ["-left", "-top", "-width", "-height"].into_iter().zip(&numbers);
            let arguments: Vec<&str> = cut.flat_map(|(name, number)| [name, number]).collect();
            let made = bed.body(&format!("/{name}?crop={}", numbers.join(",")))?;
            ensure!(made == netpbm("pamcut", &arguments, &path)?, "{name} {numbers:?}");
        }
    }
    Ok(())
}

/// Promise: Gray values are the luminance that netpbm computes, except for rounding.
fn gray_is_that_of_netpbm() -> Result<()> {
    let bed = TestBed::new()?;
    for (maximum, most) in [(255, 1), (65535, 60)] {
        let path = bed.store("a.ppm", &picture(641, 479, 3, maximum))?;
        ensure_alike(&bed.body("/a.ppm?gray")?, &netpbm("ppmtopgm", &[], &path)?, most)?;
    }
    let gray = picture(31, 17, 1, 255);
    bed.store("g.pgm", &gray)?;
    ensure!(samples(&bed.body("/g.pgm?gray")?)?.1 == samples_behind_comment(&gray)?, "gray stays as it is");
    Ok(())
}

/// Samples of a picture of [`picture`], whose header has a line more.
fn samples_behind_comment(picture: &[u8]) -> Result<Vec<u32>> {
    let without = String::from_utf8_lossy(&picture[..3]).into_owned();
    let rest = &picture[3 + "# a comment\n".len()..];
    Ok(samples(&[without.as_bytes(), rest].concat())?.1)
}

/// Promise: `method=integral` computes the same means as netpbm, except for rounding.
fn means_are_those_of_netpbm() -> Result<()> {
    let bed = TestBed::new()?;
    let path = bed.store("a.ppm", &picture(640, 480, 3, 255))?;
    for side in ["2", "4", "5"] {
        let made = bed.body(&format!("/a.ppm?scale=1/{side}&method=integral"))?;
        ensure_alike(&made, &netpbm("pamscale", &["-linear", "-reduce", side], &path)?, 1)?;
    }
    Ok(())
}

/// Promise: The order of steps is crop, gray, scale, whatever the order in the query.
fn steps_are_done_in_their_order() -> Result<()> {
    let bed = TestBed::new()?;
    bed.store("a.ppm", &picture(640, 480, 3, 255))?;
    for method in ["integral", "middle", "linear"] {
        let last = format!("scale=1/3&method={method}");
        let made = bed.body(&format!("/a.ppm?{last}&gray&crop=11,13,301,202"))?;
        bed.store("cut.ppm", &bed.body("/a.ppm?crop=11,13,301,202")?)?;
        bed.store("gray.pgm", &bed.body("/cut.ppm?gray")?)?;
        ensure!(made == bed.body(&format!("/gray.pgm?{last}"))?, "{method}");
        ensure!(made.starts_with(b"P5\n100 67\n255\n"), "{method}");
    }
    Ok(())
}

/// Promise: Down-sampling uses means, middle pixels or linear interpolation, as the client requests.
fn methods_differ() -> Result<()> {
    let bed = TestBed::new()?;
    bed.store("a.pgm", b"P5 4 2 255\n\x00\x10\x20\x30\x40\x50\x60\x70")?;
    for (query, pixels) in [
        ("scale=1/2&method=integral", [0x28, 0x48]),
        ("scale=1/2&method=middle", [0x50, 0x70]),
        ("scale=1/2&method=linear", [0x28, 0x48]),
    ] {
        let made = bed.body(&format!("/a.pgm?{query}"))?;
        ensure!(made == [&b"P5\n2 1\n255\n"[..], &pixels].concat(), "{query}: {made:?}");
    }
    Ok(())
}

/// Promise: A request that cannot be answered is refused with a status and the reason.
fn requests_that_cannot_be_answered_are_refused() -> Result<()> {
    let bed = TestBed::new()?;
    bed.store("a.ppm", &picture(64, 48, 3, 255))?;
    bed.store("short.ppm", &picture(64, 48, 3, 255)[..5000])?;
    bed.store("text", b"some text")?;
    bed.store("empty", b"")?;
    bed.store(".hidden.ppm", &picture(64, 48, 3, 255))?;
    std::fs::create_dir(bed.folder.path().join("sub"))?;
    std::os::unix::fs::symlink("/etc/passwd", bed.folder.path().join("link"))?;
    for (path, status, words) in [
        ("/a.ppm?crop=0,0,65,48", 400, "the picture has 64 by 48 pixels"),
        ("/a.ppm?crop=0,0,0,48", 400, "invalid crop"),
        ("/a.ppm?crop=4294967295,0,2,1", 400, "invalid crop"),
        ("/a.ppm?crop=1,2,3", 400, "expected X,Y,WIDTH,HEIGHT"),
        ("/a.ppm?rotate=90", 400, "unknown parameter rotate"),
        ("/a.ppm?scale=2/3&method=integral", 400, "needs scale=1/N"),
        ("/a.ppm/", 404, "no such file"),
        ("/nothing.ppm", 404, "no such file"),
        ("/.hidden.ppm", 404, "no such file"),
        ("/link", 404, "no such file"),
        ("/../a.ppm", 400, "`..` segment"),
        ("/text", 415, "neither binary PPM nor PGM nor TIFF"),
        ("/empty", 415, "neither binary PPM nor PGM nor TIFF"),
        ("/short.ppm", 415, "truncated picture: the file has 5000 bytes"),
        ("/short.ppm?gray", 415, "truncated picture"),
        ("/sub", 301, "end in a slash"),
    ] {
        let answer = bed.get(path)?;
        let text = String::from_utf8_lossy(&answer.body);
        ensure!(answer.status == status && text.contains(words), "{path}: {} {text}", answer.status);
    }
    let answer = http::request(bed.address, "POST", "/a.ppm", &[("Content-Length", "0")])?;
    ensure!(answer.status == 405 && answer.header("allow") == Some("GET, HEAD, OPTIONS"), "{answer:?}");
    Ok(())
}

/// Promise: A folder is listed with links to the viewer of each picture.
fn folders_are_listed() -> Result<()> {
    let bed = TestBed::new()?;
    std::fs::create_dir(bed.folder.path().join("sub"))?;
    bed.store("sub/a b.ppm", &picture(4, 4, 3, 255))?;
    let root = String::from_utf8(bed.body("/")?)?;
    ensure!(root.contains("<a href=\"sub/\">sub/</a>"), "{root}");
    let sub = String::from_utf8(bed.body("/sub/")?)?;
    ensure!(sub.contains("<a href=\"a%20b.ppm?view\">a b.ppm</a>") && sub.contains("href=\"../\""), "{sub}");
    let information = String::from_utf8(bed.body("/sub/a%20b.ppm?info")?)?;
    ensure!(information.contains("\"width\":4") && information.contains("\"channels\":3"), "{information}");
    Ok(())
}

/// Promise: The access log of `wirepath-images` has the query of each request.
fn queries_are_in_the_access_log() -> Result<()> {
    for (form, words) in [("text", "query=\"crop=0,0,2,2\""), ("json", "\"query\":\"crop=0,0,2,2\"")] {
        let bed = TestBed::with(&["--access-log", form])?;
        bed.store("a.ppm", &picture(4, 4, 3, 255))?;
        bed.body("/a.ppm")?;
        bed.body("/a.ppm?crop=0,0,2,2")?;
        let line = Deadline::seconds(10.0).wait_for(words, || {
            let log = bed.process.log();
            Ok(log.lines().find(|line| line.contains(words)).map(str::to_owned))
        })?;
        ensure!(line.contains("/a.ppm") && line.contains("200"), "{line}");
        let log = bed.process.log();
        let without = log.lines().find(|line| line.contains("/a.ppm")).context("no first line")?;
        ensure!(!without.contains("query"), "{without}");
    }
    Ok(())
}

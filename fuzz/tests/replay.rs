//! Runs every target over its corpus and its seeds, on the stable compiler.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use wirepath_fuzz::{TARGETS, Target, seeds};

/// Promise: No bytes break the readers of credentials, challenges and users, and none are admitted.
#[test]
fn authorization_keeps_its_promises() {
    replay("authorization");
}

/// Promise: No query breaks the reader of signed URLs, and none is admitted without a key.
#[test]
fn signed_url_keeps_its_promises() {
    replay("signed_url");
}

/// Promise: No object file of a handler makes user space panic, run for ever, or see more than its record.
#[test]
fn bpf_keeps_its_promises() {
    replay("bpf");
}

/// Promise: No bytes break the HTTP reader or its answers, however they are cut.
#[test]
fn http_keeps_its_promises() {
    replay("http");
}

/// Promise: No bytes of an HTTP server break the load client's readers of heads, bodies and playlists.
#[test]
fn http_client_keeps_its_promises() {
    replay("http_client");
}

/// Promise: No file breaks the reader of wire images.
#[test]
fn image_keeps_its_promises() {
    replay("image");
}

/// Promise: No file breaks the reader of Matroska files, the payload formats of its samples, or their
/// description.
#[test]
fn matroska_keeps_its_promises() {
    replay("matroska");
}

/// Promise: No bytes break the readers of MIKEY messages and of KeyMgmt headers.
#[test]
fn mikey_keeps_its_promises() {
    replay("mikey");
}

/// Promise: No file breaks the reader of MP4 files, the payload formats of its samples, or their description.
#[test]
fn mp4_keeps_its_promises() {
    replay("mp4");
}

/// Promise: No file breaks the readers of pictures, and no part of a picture refers to bytes outside its
/// file.
#[test]
fn picture_keeps_its_promises() {
    replay("picture");
}

/// Promise: No file of Arrow records, no query and no format description in XML or JSON breaks their readers.
#[test]
fn records_keeps_its_promises() {
    replay("records");
}

/// Promise: No bytes break the RTCP reader.
#[test]
fn rtcp_keeps_its_promises() {
    replay("rtcp");
}

/// Promise: No bytes break the RTSP reader, however they are cut.
#[test]
fn rtsp_keeps_its_promises() {
    replay("rtsp");
}

/// Promise: No bytes of an RTSP server break the load client's reader, however they are cut.
#[test]
fn rtsp_client_keeps_its_promises() {
    replay("rtsp_client");
}

/// Promise: No file breaks the packing of transport streams.
#[test]
fn ts_keeps_its_promises() {
    replay("ts");
}

/// Promise: No text breaks the decoder of requests through an HTTP tunnel, however it is cut.
#[test]
fn tunnel_keeps_its_promises() {
    replay("tunnel");
}

/// Promise: No file breaks the packing of transport streams.
/// Promise: No file breaks the reader of wire images.
#[test]
fn seeds_that_are_made_keep_their_promises() {
    let seeds = seeds::all().expect("streams that can be packed");
    assert!(seeds.len() > 30);
    for seed in seeds {
        println!("{}/{}", seed.target, seed.name);
        target(seed.target)(&seed.bytes);
    }
}

#[test]
fn every_target_is_replayed() {
    let names: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        [
            "authorization",
            "bpf",
            "http",
            "http_client",
            "image",
            "matroska",
            "mikey",
            "mp4",
            "picture",
            "records",
            "rtcp",
            "rtsp",
            "rtsp_client",
            "signed_url",
            "ts",
            "tunnel"
        ],
        "give the new target a test above"
    );
}

/// Promise: Every fuzz target has a corpus and every corpus a target, replayed in `make test`.
#[test]
fn every_corpus_has_a_target_and_every_target_a_corpus() {
    let targets: BTreeSet<OsString> = TARGETS.iter().map(|(name, _)| OsString::from(name)).collect();
    assert_eq!(names_in(&folder("corpus")), targets);
    assert_eq!(names_in(&folder("fuzz_targets")), targets.iter().map(file_of).collect());
    let strangers: Vec<_> = names_in(&folder("seeds")).difference(&targets).cloned().collect();
    assert!(strangers.is_empty(), "nothing replays the seeds {strangers:?}");
}

fn replay(name: &str) {
    let target = target(name);
    let mut replayed = 0;
    for folder in [folder("corpus").join(name), folder("seeds").join(name)] {
        if !folder.exists() {
            continue; // that there is a corpus has a test of its own; seeds there need not be
        }
        for input in names_in(&folder) {
            let input = folder.join(input);
            println!("{}", input.display()); // shown when the target panics
            target(&std::fs::read(&input).expect("a readable input"));
            replayed += 1;
        }
    }
    assert!(replayed > 10, "only {replayed} inputs for {name}");
}

fn target(name: &str) -> Target {
    TARGETS.iter().find(|(target, _)| *target == name).expect("a target of this name").1
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn names_in(folder: &Path) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("a readable folder").file_name()).collect()
}

fn file_of(target: &OsString) -> OsString {
    Path::new(target).with_extension("rs").into_os_string()
}

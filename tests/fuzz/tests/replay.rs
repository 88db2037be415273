//! Runs every target over its corpus and its seeds, on the stable compiler.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use wirepath_fuzz::{TARGETS, Target, seeds};

/// Promise: No bytes make the readers of credentials, challenges and users panic, and no forged login is
/// admitted.
#[test]
fn authorization_keeps_its_promises() {
    replay("authorization");
}

/// Promise: No query makes the reader of signed URLs panic, and no query is admitted without a key.
#[test]
fn signed_url_keeps_its_promises() {
    replay("signed_url");
}

/// Promise: No object file of a handler makes user space panic, run for ever, or read beyond its record.
#[test]
fn bpf_keeps_its_promises() {
    replay("bpf");
}

/// Promise: No transport stream makes reading or packing of its tracks panic, and their bytes are bounded by it.
#[test]
fn demux_keeps_its_promises() {
    replay("demux");
}

/// Promise: No bytes make the HTTP reader or its responses panic, and splitting them does not change the
/// result.
#[test]
fn http_keeps_its_promises() {
    replay("http");
}

/// Promise: No bytes of an HTTP server make the load client's readers of heads, bodies and playlists panic.
#[test]
fn http_client_keeps_its_promises() {
    replay("http_client");
}

/// Promise: No file makes the reader of wire images panic or return values outside the file.
#[test]
fn image_keeps_its_promises() {
    replay("image");
}

/// Promise: No Matroska file makes reading, packing or description panic, or gives samples outside the file.
#[test]
fn matroska_keeps_its_promises() {
    replay("matroska");
}

/// Promise: No bytes break the readers of MIKEY messages and of KeyMgmt headers.
#[test]
fn mikey_keeps_its_promises() {
    replay("mikey");
}

/// Promise: No MP4 file makes reading, packing or description panic, or gives samples outside the file.
#[test]
fn mp4_keeps_its_promises() {
    replay("mp4");
}

/// Promise: No file makes the picture readers panic, and no part of a picture refers to bytes outside its
/// file.
#[test]
fn picture_keeps_its_promises() {
    replay("picture");
}

/// Promise: No bytes make the reader of playlists panic, and an error names a line of the list.
#[test]
fn playlist_keeps_its_promises() {
    replay("playlist");
}

/// Promise: No Arrow file, query or format description in XML or JSON makes its reader panic.
#[test]
fn records_keeps_its_promises() {
    replay("records");
}

/// Promise: No datagram makes the RTCP reader panic or find more reports than fit into it.
#[test]
fn rtcp_keeps_its_promises() {
    replay("rtcp");
}

/// Promise: No bytes make the RTSP reader panic, and splitting them does not change the result.
#[test]
fn rtsp_keeps_its_promises() {
    replay("rtsp");
}

/// Promise: No bytes of an RTSP server make the load client panic, and splitting them does not change the
/// result.
#[test]
fn rtsp_client_keeps_its_promises() {
    replay("rtsp_client");
}

/// Promise: Whatever a file says of itself, its session description has its tracks and values, and nothing else.
#[test]
fn sdp_keeps_its_promises() {
    replay("sdp");
}

/// Promise: No transport stream makes packing panic or write an image that its reader refuses.
#[test]
fn ts_keeps_its_promises() {
    replay("ts");
}

/// Promise: No text makes the HTTP tunnel's decoder panic, and splitting the text does not change the result.
#[test]
fn tunnel_keeps_its_promises() {
    replay("tunnel");
}

/// Promise: No transport stream makes packing panic or write an image that its reader refuses.
/// Promise: No file makes the reader of wire images panic or return values outside the file.
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
            "demux",
            "http",
            "http_client",
            "image",
            "matroska",
            "mikey",
            "mp4",
            "picture",
            "playlist",
            "records",
            "rtcp",
            "rtsp",
            "rtsp_client",
            "sdp",
            "signed_url",
            "ts",
            "tunnel"
        ],
        "give the new target a test above"
    );
}

/// Promise: Every fuzz target has a corpus, every corpus has a target, and `make test` replays them.
#[test]
fn every_corpus_has_a_target_and_every_target_a_corpus() {
    let targets: BTreeSet<OsString> = TARGETS.iter().map(|(name, _)| OsString::from(name)).collect();
    assert_eq!(names_in(&folder("corpus")), targets);
    assert_eq!(names_in(&folder("fuzz_targets")), targets.iter().map(file_of).collect());
    let manifest = std::fs::read_to_string(folder("Cargo.toml")).expect("a readable manifest");
    for (name, _) in TARGETS {
        let program = format!("[[bin]]\nname = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\n");
        assert!(manifest.contains(&program), "fuzz/Cargo.toml has no program {name}");
    }
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

/// Folder below `fuzz`.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(name)
}

fn names_in(folder: &Path) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("a readable folder").file_name()).collect()
}

fn file_of(target: &OsString) -> OsString {
    Path::new(target).with_extension("rs").into_os_string()
}

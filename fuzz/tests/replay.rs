//! Runs every target over its corpus, on the stable compiler.

use std::path::Path;

use wirepath_fuzz::TARGETS;

#[test]
fn the_corpus_breaks_no_promise() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in TARGETS {
        let mut inputs: Vec<_> = std::fs::read_dir(corpus.join(name))
            .unwrap_or_else(|error| panic!("no corpus for {name}: {error}"))
            .map(|entry| entry.expect("a readable folder").path())
            .collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "the corpus of {name} is empty");
        for input in inputs {
            println!("{}", input.display()); // shown when the target panics
            target(&std::fs::read(&input).expect("a readable input"));
        }
    }
}

#[test]
fn every_corpus_has_a_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for entry in std::fs::read_dir(corpus).expect("the corpus") {
        let name = entry.expect("a readable folder").file_name();
        assert!(TARGETS.iter().any(|(target, _)| name == *target), "nothing replays the corpus {name:?}");
    }
}

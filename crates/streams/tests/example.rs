//! The example of a handler of one's own does what it says.

use std::io::Write;
use std::process::{Command, Stdio};

/// Promise: Handlers read, select or rewrite, in order, whole records or pieces.
#[test]
fn a_handler_of_ones_own_is_a_few_lines() {
    let source = include_str!("../examples/own_handler.rs");
    let begin = source.find("/// Lets lines pass").expect("where the handler begins");
    let end = source.find("/// `grep` as a stream").expect("where it ends");
    assert!(source[begin..end].lines().count() <= 40);

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--locked", "--offline", "--example", "own_handler", "--", "wire"]);
    let mut child = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cargo runs");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(b"a wire\nno match\nwirepath\nlast wire")
        .expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a wire\nwirepath\nlast wire");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("(\"containing\", \"passed\", 3)"), "{said}");
}

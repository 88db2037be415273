//! The example of a custom handler works as documented.

use wirepath_streams::Object;

#[path = "../examples/own_handler.rs"]
#[expect(dead_code, reason = "main is for the command")]
mod own_handler;

/// Promise: Handlers read, select or rewrite whole records or pieces, in order.
#[test]
fn a_handler_of_ones_own_is_a_few_lines() {
    let source = include_str!("../examples/own_handler.rs");
    let begin = source.find("/// Lets lines pass").expect("where the handler begins");
    let end = source.find("/// `grep` as a stream").expect("where it ends");
    assert!(source[begin..end].lines().count() <= 40);

    let (output, lines) = Object::collect("lines", 100);
    let input = Object::memory("text", "a wire\nno match\nwirepath\nlast wire".into());
    let reports = own_handler::grep("wire", input, output).expect("nothing can fail");
    assert_eq!(lines.bytes(), b"a wire\nwirepath\nlast wire");
    assert_eq!(reports, [("containing", "passed", 3)]);
}

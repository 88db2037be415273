//! Functions of a Rust file with their documentation, and which of them are tests.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::rust::is_attribute;

/// Function with its documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Name without its module.
    pub(crate) name: String,
    /// Documentation, line by line.
    pub(crate) doc: Vec<String>,
    /// True if a test runner calls it: it is marked `#[test]`, or a `trials![]` of the file names it.
    pub(crate) is_test: bool,
}

/// Functions of a file in order, those inside of modules and macros too.
pub(crate) fn functions(stream: TokenStream) -> Vec<Function> {
    let mut found = Found::default();
    found.read(stream);
    for function in &mut found.functions {
        function.is_test |= found.listed.contains(&function.name);
    }
    found.functions
}

#[derive(Default)]
struct Found {
    functions: Vec<Function>,
    /// Names in the `trials![]` of the file.
    listed: BTreeSet<String>,
}

impl Found {
    fn read(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut attributes = Attributes::default();
        for (index, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) if is_attribute(&tokens[..index]) => attributes.add(group.stream()),
                TokenTree::Group(group) => {
                    if is_listing(&tokens[..index]) {
                        names(group.stream(), &mut self.listed);
                    }
                    self.read(group.stream());
                    if group.delimiter() == Delimiter::Brace {
                        attributes = Attributes::default();
                    }
                }
                TokenTree::Ident(ident) if ident == "fn" => {
                    let Some(name) = tokens.get(index + 1).map(ToString::to_string) else { return };
                    let Attributes { doc, is_test } = std::mem::take(&mut attributes);
                    self.functions.push(Function { name, doc, is_test });
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => attributes = Attributes::default(),
                _ => {}
            }
        }
    }
}

/// Attributes of the item that comes next.
#[derive(Default)]
struct Attributes {
    doc: Vec<String>,
    is_test: bool,
}

impl Attributes {
    fn add(&mut self, attribute: TokenStream) {
        let tokens: Vec<TokenTree> = attribute.into_iter().collect();
        match tokens.as_slice() {
            [TokenTree::Ident(name), TokenTree::Punct(_), TokenTree::Literal(text)] if name == "doc" => {
                self.doc.push(unquoted(&text.to_string()));
            }
            tokens => self.is_test |= is_test_marker(tokens),
        }
    }
}

/// Text of a string literal.
fn unquoted(literal: &str) -> String {
    let text = literal.trim_start_matches("r").trim_matches('"');
    text.replace("\\\"", "\"").replace("\\'", "'").replace("\\\\", "\\")
}

/// Recognises `test`, `tokio::test(flavor = …)` and the like, but not `cfg(test)`.
fn is_test_marker(attribute: &[TokenTree]) -> bool {
    let path = attribute.iter().take_while(|token| !matches!(token, TokenTree::Group(_)));
    matches!(path.last(), Some(TokenTree::Ident(name)) if name == "test")
}

/// Returns whether the next token is the list of a `trials![…]`.
fn is_listing(before: &[TokenTree]) -> bool {
    matches!(before, [.., TokenTree::Ident(name), TokenTree::Punct(bang)] if name == "trials" && bang.as_char() == '!')
}

fn names(stream: TokenStream, into: &mut BTreeSet<String>) {
    for token in stream {
        match token {
            TokenTree::Ident(ident) => {
                into.insert(ident.to_string());
            }
            TokenTree::Group(group) => names(group.stream(), into),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust;

    fn tests(text: &str) -> Vec<String> {
        let functions = functions(rust::tokens(text).unwrap());
        functions.into_iter().filter(|function| function.is_test).map(|function| function.name).collect()
    }

    #[test]
    fn only_marked_functions_are_tests() {
        let text = "
            fn helper() {}
            #[tokio::test(start_paused = true)] async fn zeroth() {}
            #[cfg(test)] fn helper_of_tests() {}
            #[test] fn first() { fn inner() {} }
            #[cfg(test)] mod tests { #[test] #[should_panic] fn second() {} fn not() {} }
            proptest! { #[test] fn third(x in 0..9) {} }";
        assert_eq!(tests(text), ["zeroth", "first", "second", "third"]);
    }

    #[test]
    fn listed_trials_are_tests() {
        let text = "fn a() {} fn b(n: u8) {} fn c() {}
            fn all() -> Vec<Trial> { testkit::trials![a, b_of_one => || b(1)] }";
        assert_eq!(tests(text), ["a", "b"]);
    }

    #[test]
    fn documentation_belongs_to_the_function_behind_it() {
        let text = "
            /// Of a constant.
            const A: u8 = 1;
            /// Says \"a\".
            ///
            /// More.
            #[test]
            fn a() {}
            fn b() {}";
        let docs: Vec<_> =
            functions(rust::tokens(text).unwrap()).into_iter().map(|function| function.doc).collect();
        assert_eq!(docs, [vec![" Says \"a\".", "", " More."], vec![]]);
    }
}

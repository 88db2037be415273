//! Rust source as tokens: comments and strings cannot be mistaken for code.

use proc_macro2::{TokenStream, TokenTree};

/// All tokens of `text` in order, groups flattened, or where it is not Rust.
pub(crate) fn tokens(text: &str) -> Result<TokenStream, String> {
    text.parse().map_err(|error: proc_macro2::LexError| {
        let start = error.span().start();
        format!("line {}: {error}", start.line)
    })
}

/// Lines on which the identifier `word` occurs.
pub(crate) fn lines_with(word: &str, stream: TokenStream) -> Vec<usize> {
    let mut lines = Vec::new();
    for token in stream {
        match token {
            TokenTree::Ident(ident) if ident == word => lines.push(ident.span().start().line),
            TokenTree::Group(group) => lines.extend(lines_with(word, group.stream())),
            _ => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_comments_and_strings_are_not_code() {
        let text = "// unsafe\n/* unsafe */ fn a() -> &'static str { \"unsafe\" }\nfn b() { unsafe {} }";
        assert_eq!(lines_with("unsafe", tokens(text).unwrap()), [3]);
    }

    #[test]
    fn what_is_not_rust_is_said_with_its_line() {
        assert!(tokens("fn a() {\n}}").unwrap_err().starts_with("line "));
    }
}

//! Rust source as tokens: comments and strings cannot be mistaken for code.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

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

/// Names of the test functions: `#[test] fn name`, also inside `proptest!`, and names listed in a `trials!`.
pub(crate) fn tests(stream: TokenStream) -> Vec<String> {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut names = Vec::new();
    let mut marked = false;
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) if is_listing(&tokens[..index]) => names.extend(items(group.stream())),
            TokenTree::Group(group)
                if group.delimiter() == Delimiter::Bracket && is_attribute(&tokens[..index]) =>
            {
                marked |= is_test_marker(&group.stream().to_string());
            }
            TokenTree::Group(group) => names.extend(tests(group.stream())),
            TokenTree::Ident(ident) if ident == "fn" => {
                let name = tokens.get(index + 1).map(ToString::to_string);
                names.extend(name.filter(|_| std::mem::take(&mut marked)));
            }
            TokenTree::Ident(ident) if ["mod", "struct", "const", "use"].iter().any(|word| ident == word) => {
                marked = false;
            }
            _ => {}
        }
    }
    names
}

fn is_attribute(before: &[TokenTree]) -> bool {
    matches!(before, [.., TokenTree::Punct(hash)] if hash.as_char() == '#')
}

/// `test`, `tokio::test(flavor = …)` and the like, and not `cfg(test)`.
fn is_test_marker(attribute: &str) -> bool {
    let path = attribute.split('(').next().unwrap_or_default();
    path.rsplit("::").next().is_some_and(|name| name.trim() == "test")
}

/// Whether what comes next is the list of a `trials![…]`.
fn is_listing(before: &[TokenTree]) -> bool {
    matches!(before, [.., TokenTree::Ident(name), TokenTree::Punct(bang)] if name == "trials" && bang.as_char() == '!')
}

/// The names of a list's items: the identifier that each begins with.
fn items(stream: TokenStream) -> Vec<String> {
    let mut names = Vec::new();
    let mut begins = true;
    for token in stream {
        match &token {
            TokenTree::Ident(ident) if begins => names.push(ident.to_string()),
            _ => {}
        }
        begins = matches!(&token, TokenTree::Punct(comma) if comma.as_char() == ',');
    }
    names
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
    fn only_marked_functions_are_tests() {
        let text = "
            fn helper() {}
            #[tokio::test(start_paused = true)] async fn zeroth() {}
            #[cfg(test)] fn helper_of_tests() {}
            #[test] fn first() { fn inner() {} }
            #[cfg(test)] mod tests { #[test] #[should_panic] fn second() {} fn not() {} }
            proptest! { #[test] fn third(x in 0..9) {} }";
        assert_eq!(tests(tokens(text).unwrap()), ["zeroth", "first", "second", "third"]);
    }

    #[test]
    fn listed_trials_are_tests() {
        let text = "fn a() {} fn b() {} fn all() -> Vec<Trial> { support::trials![a, b] }";
        assert_eq!(tests(tokens(text).unwrap()), ["a", "b"]);
        let text = "fn all() -> Vec<Trial> { trials![a, b => || c(d, e), f] }";
        assert_eq!(tests(tokens(text).unwrap()), ["a", "b", "f"]);
    }

    #[test]
    fn what_is_not_rust_is_said_with_its_line() {
        assert!(tokens("fn a() {\n}}").unwrap_err().starts_with("line "));
    }
}

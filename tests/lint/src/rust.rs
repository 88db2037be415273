//! Rust source as tokens: comments and strings cannot be mistaken for code.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// All tokens of `text` in order, groups flattened, or where it is not Rust.
pub(crate) fn tokens(text: &str) -> Result<TokenStream, String> {
    text.parse().map_err(|error: proc_macro2::LexError| {
        let start = error.span().start();
        format!("line {}: {error}", start.line)
    })
}

/// Returns whether the next token, a group in brackets, is an attribute.
pub(crate) fn is_attribute(before: &[TokenTree]) -> bool {
    matches!(before, [.., TokenTree::Punct(hash)] if hash.as_char() == '#')
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

/// Imports and definitions of a file.
#[derive(Default)]
pub(crate) struct Source {
    /// Paths that begin with `crate`, `self` or `super`.
    pub(crate) paths: Vec<SourcePath>,
    /// Names that `use` brings into scope, and the path of each.
    pub(crate) names: BTreeMap<String, Vec<String>>,
    /// Paths before `::*`.
    pub(crate) globs: Vec<Vec<String>>,
    /// Items of the file's own.
    pub(crate) defines: BTreeSet<String>,
    /// Modules that are only there for tests.
    pub(crate) test_modules: BTreeSet<String>,
}

/// A path in a file.
pub(crate) struct SourcePath {
    /// Inline modules that it is in.
    pub(crate) scope: Vec<String>,
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
}

/// Keywords that the name of an item follows.
const ITEMS: [&str; 8] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];

impl Source {
    pub(crate) fn read(stream: TokenStream) -> Source {
        let mut source = Source::default();
        source.walk(stream, &[]);
        source
    }

    fn walk(&mut self, stream: TokenStream, scope: &[String]) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut index = 0;
        while let Some(token) = tokens.get(index) {
            let rest = &tokens[index..];
            index += 1;
            match token {
                TokenTree::Group(group) if is_attribute(&tokens[..index - 1]) => {
                    let is_for_tests = is_for_tests(&group.stream().to_string());
                    index += if is_for_tests { self.skip_item(&tokens[index..]) } else { 0 };
                }
                TokenTree::Group(group) => self.walk(group.stream(), scope),
                TokenTree::Ident(word) if word == "use" => {
                    let length = rest.iter().position(|token| is_punct(token, ';')).unwrap_or(rest.len());
                    self.read_use(&rest[1..length], &[], scope);
                    index += length - 1;
                }
                TokenTree::Ident(word) if word == "mod" => {
                    if let [_, TokenTree::Ident(name), TokenTree::Group(group), ..] = rest {
                        self.walk(group.stream(), &[scope, &[name.to_string()]].concat());
                        index += 2;
                    }
                }
                TokenTree::Ident(word) if ITEMS.iter().any(|item| word == item) => {
                    self.defines.extend(rest.get(1).map(ToString::to_string));
                }
                TokenTree::Ident(word) if ["crate", "self", "super"].iter().any(|start| word == start) => {
                    let segments = segments(rest);
                    index += 3 * (segments.len() - 1);
                    if segments.len() > 1 {
                        let line = word.span().start().line;
                        self.paths.push(SourcePath { scope: scope.to_vec(), segments, line });
                    }
                }
                _ => {}
            }
        }
    }

    /// Length of an item that is only there for tests.
    fn skip_item(&mut self, tokens: &[TokenTree]) -> usize {
        let name = tokens.windows(2).find_map(|pair| match pair {
            [TokenTree::Ident(word), TokenTree::Ident(name)] if word == "mod" => Some(name.to_string()),
            _ => None,
        });
        let is_end = |token: &TokenTree| match token {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            token => is_punct(token, ';'),
        };
        let length = tokens.iter().position(is_end).map_or(tokens.len(), |end| end + 1);
        let ends_in = tokens[..length]
            .windows(2)
            .any(|pair| matches!(pair, [TokenTree::Ident(word), _] if word == "mod"));
        self.test_modules.extend(name.filter(|_| ends_in));
        length
    }

    /// Reads what comes after `use` and the path `before`.
    fn read_use(&mut self, tokens: &[TokenTree], before: &[String], scope: &[String]) {
        let own = segments(tokens);
        let path = [before, &own[..]].concat();
        let rest = &tokens[(3 * own.len()).saturating_sub(2).min(tokens.len())..];
        let is_ours = path.first().is_some_and(|first| ["crate", "self", "super"].contains(&first.as_str()));
        if let Some(token) = tokens.first().filter(|_| is_ours && !own.is_empty()) {
            let (scope, line) = (scope.to_vec(), token.span().start().line);
            self.paths.push(SourcePath { scope, segments: path.clone(), line });
        }
        match rest {
            [.., TokenTree::Group(group)] => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                inner.split(|token| is_punct(token, ',')).for_each(|one| self.read_use(one, &path, scope));
            }
            [.., star] if is_punct(star, '*') => self.globs.push(path),
            [TokenTree::Ident(word), TokenTree::Ident(alias)] if word == "as" => {
                self.names.insert(alias.to_string(), path);
            }
            _ => {
                let path = match path.split_last() {
                    Some((last, before)) if last == "self" => before.to_vec(),
                    _ => path,
                };
                self.names.extend(path.last().cloned().map(|name| (name, path)));
            }
        }
    }
}

/// The names of a path that tokens begin with: `a::b::c`.
fn segments(tokens: &[TokenTree]) -> Vec<String> {
    let mut names = Vec::new();
    for part in tokens.chunks(3) {
        let TokenTree::Ident(name) = &part[0] else { break };
        names.push(name.to_string());
        let [_, one, other] = part else { break };
        if !(is_punct(one, ':') && is_punct(other, ':')) {
            break;
        }
    }
    names
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

/// `cfg(test)`, alone or with more.
fn is_for_tests(attribute: &str) -> bool {
    let words: Vec<&str> = attribute.split(|character: char| !character.is_alphanumeric()).collect();
    words.first() == Some(&"cfg") && words.contains(&"test") && !words.contains(&"not")
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

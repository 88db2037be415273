//! Tokens of expressions.

use crate::error::{RecordsError, Result};

/// Symbols, longer ones before their beginnings.
const SYMBOLS: &[&str] = &["<>", "!=", "<=", ">=", "=", "<", ">", "+", "-", "*", "/", "%", "(", ")", ","];

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    Integer(i64),
    Float(f64),
    /// In single quotes.
    Text(String),
    /// A column in double quotes.
    Name(String),
    /// A keyword or a column.
    Word(&'a str),
    Symbol(&'static str),
}

/// The tokens of a text, each with the place of its first byte.
pub(crate) struct Tokens<'a> {
    text: &'a str,
    tokens: Vec<(usize, Token<'a>)>,
    next: usize,
}

impl<'a> Tokens<'a> {
    pub(crate) fn new(text: &'a str) -> Result<Tokens<'a>> {
        let (mut tokens, mut rest) = (Vec::new(), text.trim_start());
        while !rest.is_empty() {
            let place = text.len() - rest.len();
            let (token, length) = token(rest).map_err(|why| wrong_at(text, place, &why))?;
            tokens.push((place, token));
            rest = rest[length..].trim_start();
        }
        Ok(Tokens { text, tokens, next: 0 })
    }

    pub(crate) fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    pub(crate) fn peek_second(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.next + 1).map(|(_, token)| token)
    }

    pub(crate) fn skip(&mut self) {
        self.next += 1;
    }

    /// Takes a symbol if it is next.
    pub(crate) fn symbol(&mut self, symbol: &'static str) -> bool {
        let is_next = self.peek() == Some(&Token::Symbol(symbol));
        self.next += usize::from(is_next);
        is_next
    }

    /// Takes a keyword if it is next.
    pub(crate) fn keyword(&mut self, keyword: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Word(word)) if word.eq_ignore_ascii_case(keyword));
        self.next += usize::from(is_next);
        is_next
    }

    /// Takes a name, quoted or not.
    pub(crate) fn name(&mut self) -> Result<String> {
        let name = match self.peek() {
            Some(Token::Word(word)) => (*word).to_owned(),
            Some(Token::Name(name)) => name.clone(),
            _ => return Err(self.expected("a name")),
        };
        self.skip();
        Ok(name)
    }

    pub(crate) fn expect_symbol(&mut self, symbol: &'static str) -> Result<()> {
        if self.symbol(symbol) { Ok(()) } else { Err(self.expected(&format!("`{symbol}`"))) }
    }

    pub(crate) fn expect_keyword(&mut self, keyword: &str) -> Result<()> {
        if self.keyword(keyword) { Ok(()) } else { Err(self.expected(keyword)) }
    }

    pub(crate) fn end(&self) -> Result<()> {
        if self.peek().is_none() { Ok(()) } else { Err(self.expected("the end")) }
    }

    pub(crate) fn expected(&self, what: &str) -> RecordsError {
        match self.tokens.get(self.next) {
            Some((place, _)) => wrong_at(self.text, *place, &format!("expected {what}")),
            None => wrong(&format!("at its end: expected {what}")),
        }
    }
}

/// An error at a byte of a text. Characters are counted here only: to count them for each token of a long text would
/// take long.
fn wrong_at(text: &str, place: usize, why: &str) -> RecordsError {
    wrong(&format!("at character {}: {why}", text[..place].chars().count() + 1))
}

fn wrong(why: &str) -> RecordsError {
    RecordsError::query(format!("invalid expression {why}"))
}

/// The token at the beginning of a text that is not empty, and its length.
fn token(text: &str) -> std::result::Result<(Token<'_>, usize), String> {
    let first = text.chars().next().unwrap_or_default();
    if first.is_ascii_digit() || first == '.' {
        return number(text);
    }
    if first == '\'' {
        return quoted(text, '\'')
            .map(|(text, length)| (Token::Text(text), length))
            .ok_or("a text that does not end".into());
    }
    if first == '"' {
        return quoted(text, '"')
            .map(|(name, length)| (Token::Name(name), length))
            .ok_or("a name that does not end".into());
    }
    let length = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    if length > 0 {
        return Ok((Token::Word(&text[..length]), length));
    }
    let symbol = SYMBOLS.iter().find(|symbol| text.starts_with(**symbol));
    symbol.map(|symbol| (Token::Symbol(symbol), symbol.len())).ok_or(format!("unknown character `{first}`"))
}

fn number(text: &str) -> std::result::Result<(Token<'_>, usize), String> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let mut length = digits(text);
    let mut is_whole = true;
    if text[length..].starts_with('.') {
        length += 1 + digits(&text[length + 1..]);
        is_whole = false;
    }
    if let Some(exponent) = text[length..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let count = digits(&exponent[sign..]);
        if count > 0 {
            length += 1 + sign + count;
            is_whole = false;
        }
    }
    let number = &text[..length];
    let token = match is_whole {
        true => number.parse().map(Token::Integer).map_err(|_| "a number that is too large")?,
        false => number.parse().map(Token::Float).map_err(|_| "invalid number")?,
    };
    Ok((token, length))
}

/// Text in quotes, in which two quotes are one; and its length with the quotes.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character != quote {
            value.push(character);
        } else if characters.next_if(|(_, next)| *next == quote).is_some() {
            value.push(quote);
        } else {
            return Some((value, at + 1));
        }
    }
    None
}

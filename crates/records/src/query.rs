//! Formats that clients ask for: by a query (`select`, `where`, `form`), or by a description in XML or JSON.

use percent_encoding::percent_decode_str;
use serde::Deserialize;

use crate::error::{RecordsError, Result};
use crate::expression::Expression;
use crate::parser::Parser;
use crate::stored::Form;
use crate::token::Token;

/// Longest format description in bytes.
pub const FORMAT_LIMIT: usize = 64 << 10;

/// Most fields of an answer.
const MOST_FIELDS: usize = 10_000;

/// Request for records.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// The file as it is.
    Whole,
    /// Its schema, as JSON.
    Schema,
    /// Records in another format.
    Format(Format),
}

/// Format of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    /// Its fields, in order.
    pub fields: Vec<Wanted>,
    /// The records that it has: those for which this is true; none for all.
    pub filter: Option<Expression>,
    /// Its form; none for that of the file.
    pub form: Option<Form>,
}

/// Field of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// All columns.
    All,
    /// A column, perhaps under another name.
    Column {
        /// Its name in the file.
        column: String,
        /// Its name in the answer.
        name: String,
    },
    /// A value that is computed.
    Derived {
        /// Its name in the answer.
        name: String,
        /// Its value.
        value: Expression,
    },
}

/// A format description, as XML (`<format><field name="…" value="…"/><where>…</where></format>`) or JSON
/// (`{"field": [{"name": "…", "value": "…"}], "where": "…"}`).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    #[serde(default)]
    field: Vec<DescribedField>,
    #[serde(rename = "where")]
    filter: Option<String>,
    form: Option<Form>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedField {
    #[serde(rename = "@name", alias = "name")]
    name: String,
    #[serde(rename = "@value", alias = "value")]
    value: Option<String>,
}

impl Question {
    /// Reads a query.
    ///
    /// # Errors
    /// A query error.
    pub fn parse(query: &str) -> Result<Question> {
        let mut format = Format { fields: Vec::new(), filter: None, form: None };
        let (mut is_schema, mut keys) = (false, Vec::new());
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if keys.contains(&key) {
                return Err(RecordsError::query(format!("{} is given twice; give it once", shown(key))));
            }
            keys.push(key);
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|_| RecordsError::query(format!("{} is not UTF-8", shown(key))))?;
            match key {
                "select" => format.fields = select(&value)?,
                "where" => format.filter = Some(Expression::parse(&value)?),
                "form" => format.form = Some(form(&value)?),
                "format" => format = Format::describe(value.as_bytes())?,
                "schema" if value.is_empty() => is_schema = true,
                _ => {
                    let why = "expected select, where, form, format or schema";
                    return Err(RecordsError::query(format!("unknown parameter {}: {why}", shown(key))));
                }
            }
        }
        if keys.len() > 1 && (is_schema || keys.contains(&"format")) {
            return Err(RecordsError::query("schema and format stand alone; leave out the other parameters"));
        }
        if is_schema {
            return Ok(Question::Schema);
        }
        if keys.is_empty() {
            return Ok(Question::Whole);
        }
        Ok(Question::Format(format.or_all()))
    }
}

fn shown(key: &str) -> String {
    key.chars().take(40).filter(|c| !c.is_control()).collect()
}

fn form(value: &str) -> Result<Form> {
    match value {
        "stream" => Ok(Form::Stream),
        "file" => Ok(Form::File),
        _ => Err(RecordsError::query("invalid form: expected stream or file")),
    }
}

impl Format {
    /// Reads a description in XML or JSON.
    ///
    /// # Errors
    /// A query error.
    pub fn describe(description: &[u8]) -> Result<Format> {
        if description.len() > FORMAT_LIMIT {
            let why = format!("the format description is too long: at most {FORMAT_LIMIT} bytes");
            return Err(RecordsError::Query(why));
        }
        let text =
            std::str::from_utf8(description).map_err(|_| RecordsError::query("the format is not UTF-8"))?;
        let Description { field, filter, form } = if text.trim_start().starts_with('<') {
            quick_xml::de::from_str(text)
                .map_err(|error| RecordsError::query(format!("invalid format description in XML: {error}")))?
        } else {
            serde_json::from_str(text).map_err(|error| {
                RecordsError::query(format!("invalid format description in JSON: {error}"))
            })?
        };
        if field.len() > MOST_FIELDS {
            return Err(too_many());
        }
        let filter = filter.as_deref().map(Expression::parse).transpose()?;
        let fields = field.into_iter().map(|DescribedField { name, value }| match value {
            None => Ok(Wanted::Column { column: name.clone(), name }),
            Some(value) => Expression::parse(&value).map(|value| Wanted::of(name, value)),
        });
        Ok(Format { fields: fields.collect::<Result<_>>()?, filter, form }.or_all())
    }

    /// All columns, unless some are named.
    fn or_all(mut self) -> Format {
        if self.fields.is_empty() {
            self.fields.push(Wanted::All);
        }
        self
    }
}

impl Wanted {
    fn of(name: String, value: Expression) -> Wanted {
        match value {
            Expression::Column(column) => Wanted::Column { column, name },
            value => Wanted::Derived { name, value },
        }
    }
}

/// Fields of a query: `*`, `column`, `name=expression` or `expression AS name`, with commas between them.
fn select(text: &str) -> Result<Vec<Wanted>> {
    let mut parser = Parser::new(text)?;
    let mut fields = Vec::new();
    loop {
        fields.push(field(&mut parser)?);
        if fields.len() > MOST_FIELDS {
            return Err(too_many());
        }
        if !parser.tokens.symbol(",") {
            break;
        }
    }
    parser.tokens.end()?;
    Ok(fields)
}

fn field(parser: &mut Parser<'_>) -> Result<Wanted> {
    let tokens = &mut parser.tokens;
    if tokens.symbol("*") {
        return Ok(Wanted::All);
    }
    let is_name = matches!(tokens.peek(), Some(Token::Word(_) | Token::Name(_)));
    match tokens.peek_second() {
        // Also a column whose name is a keyword.
        None | Some(Token::Symbol(",")) if is_name => {
            let column = tokens.name()?;
            Ok(Wanted::Column { name: column.clone(), column })
        }
        Some(Token::Symbol("=")) if is_name => {
            let name = tokens.name()?;
            tokens.skip();
            Ok(Wanted::of(name, parser.fresh_expression()?))
        }
        _ => {
            let value = parser.fresh_expression()?;
            if !parser.tokens.keyword("AS") {
                return Err(parser.tokens.expected("AS and a name for the computed field"));
            }
            Ok(Wanted::of(parser.tokens.name()?, value))
        }
    }
}

fn too_many() -> RecordsError {
    RecordsError::query(format!("more than {MOST_FIELDS} fields; select less"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str) -> Wanted {
        Wanted::Column { column: name.into(), name: name.into() }
    }

    #[test]
    fn queries_and_descriptions_say_the_same() {
        let text = "select=carrier,meals%3Dpassengers%2Bcrew,who=origin,*&where=origin=%27FRA%27&form=file";
        let Question::Format(format) = Question::parse(text).expect("a query") else { panic!("a format") };
        let value = Expression::parse("passengers + crew").expect("an expression");
        let who = Wanted::Column { column: "origin".into(), name: "who".into() };
        let meals = Wanted::Derived { name: "meals".into(), value };
        assert_eq!(format.fields, [column("carrier"), meals.clone(), who.clone(), Wanted::All]);
        assert_eq!(format.form, Some(Form::File));
        let xml = r#"<?xml version="1.0"?><format><field name="carrier"/>
            <field name="meals" value="passengers + crew"/><field name="who" value="origin"/>
            <where>origin = &apos;FRA&apos;</where><form>file</form></format>"#;
        let json = r#"{"field": [{"name": "carrier"}, {"name": "meals", "value": "passengers + crew"},
            {"name": "who", "value": "origin"}], "where": "origin = 'FRA'", "form": "file"}"#;
        for description in [xml, json] {
            let described = Format::describe(description.as_bytes()).expect("a description");
            assert_eq!(described.fields, [column("carrier"), meals.clone(), who.clone()]);
            assert_eq!((described.filter, described.form), (format.filter.clone(), format.form));
        }
        assert_eq!(Question::parse("").expect("a query"), Question::Whole);
    }

    /// Promise: An invalid query or format description is refused with the reason.
    #[test]
    fn refuses_what_is_wrong() {
        for (query, words) in [
            ("select=", "expected a column"),
            ("select=a,,b", "at character 3: expected a column"),
            ("select=a+b", "expected AS and a name for the computed field"),
            ("select=a&select=b", "select is given twice"),
            ("where=a=", "at its end: expected a column"),
            ("form=csv", "invalid form: expected stream or file"),
            ("columns=a", "unknown parameter columns"),
            ("schema&select=a", "stand alone"),
            ("format=%3Cformat%3E", "invalid format description in XML"),
            ("format={\"fields\":[]}", "invalid format description in JSON: unknown field `fields`"),
            ("format=%3Cformat%3E%3Cfield%20nome=%22a%22/%3E%3C/format%3E", "unknown field `@nome`"),
            ("select=%ff", "select is not UTF-8"),
        ] {
            let error = Question::parse(query).expect_err(query).to_string();
            assert!(error.contains(words), "{query}: {error}");
        }
    }
}

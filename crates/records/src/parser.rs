//! Parser of expressions.
//!
//! ```text
//! or         = and { "OR" and }
//! and        = not { "AND" not }
//! not        = "NOT" not | comparison
//! comparison = sum [ ("=" | "<>" | "<" | "<=" | ">" | ">=") sum | "IS" ["NOT"] "NULL"
//!                  | ["NOT"] "IN" "(" sum { "," sum } ")" | ["NOT"] "BETWEEN" sum "AND" sum ]
//! sum        = product { ("+" | "-") product }
//! product    = value { ("*" | "/" | "%") value }
//! value      = "-" value | number | 'text' | TRUE | FALSE | name | "name" | "(" or ")"
//! ```

use crate::error::{RecordsError, Result};
use crate::expression::{Expression, Operator};
use crate::token::{Token, Tokens};

/// Most operands and operators of an expression, and so the depth of evaluating it.
const MOST_NODES: usize = 256;

/// Most brackets, signs and NOT within each other.
const MOST_DEPTH: usize = 32;

impl Expression {
    /// Reads a text that is one expression.
    ///
    /// # Errors
    /// A query error that says where.
    pub fn parse(text: &str) -> Result<Expression> {
        let mut parser = Parser::new(text)?;
        let expression = parser.expression()?;
        parser.tokens.end()?;
        Ok(expression)
    }
}

impl Operator {
    fn of_sum(token: &Token<'_>) -> Option<Operator> {
        match token {
            Token::Symbol("+") => Some(Operator::Add),
            Token::Symbol("-") => Some(Operator::Subtract),
            _ => None,
        }
    }

    fn of_product(token: &Token<'_>) -> Option<Operator> {
        match token {
            Token::Symbol("*") => Some(Operator::Multiply),
            Token::Symbol("/") => Some(Operator::Divide),
            Token::Symbol("%") => Some(Operator::Remainder),
            _ => None,
        }
    }

    fn of_comparison(token: &Token<'_>) -> Option<Operator> {
        match token {
            Token::Symbol("=") => Some(Operator::Equal),
            Token::Symbol("<>" | "!=") => Some(Operator::NotEqual),
            Token::Symbol("<") => Some(Operator::Less),
            Token::Symbol("<=") => Some(Operator::LessOrEqual),
            Token::Symbol(">") => Some(Operator::Greater),
            Token::Symbol(">=") => Some(Operator::GreaterOrEqual),
            _ => None,
        }
    }
}

/// Reads expressions from tokens.
pub(crate) struct Parser<'a> {
    pub(crate) tokens: Tokens<'a>,
    nodes: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a str) -> Result<Parser<'a>> {
        Ok(Parser { tokens: Tokens::new(text)?, nodes: 0, depth: 0 })
    }

    /// An expression with limits of its own.
    pub(crate) fn fresh_expression(&mut self) -> Result<Expression> {
        self.nodes = 0;
        self.expression()
    }

    fn expression(&mut self) -> Result<Expression> {
        self.nested(Parser::or)
    }

    fn nested(&mut self, parse: fn(&mut Self) -> Result<Expression>) -> Result<Expression> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(RecordsError::query(format!("invalid expression: nested deeper than {MOST_DEPTH}")));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Counts nodes that are made.
    fn count(&mut self, nodes: usize) -> Result<()> {
        self.nodes += nodes;
        if self.nodes > MOST_NODES {
            let why = format!("invalid expression: more than {MOST_NODES} operands and operators");
            return Err(RecordsError::query(why));
        }
        Ok(())
    }

    fn binary(&mut self, operator: Operator, left: Expression, right: Expression) -> Result<Expression> {
        self.count(1)?;
        Ok(Expression::Binary(operator, Box::new(left), Box::new(right)))
    }

    fn not_if(is_negated: bool, expression: Expression) -> Expression {
        if is_negated { Expression::Not(Box::new(expression)) } else { expression }
    }

    fn or(&mut self) -> Result<Expression> {
        let mut left = self.and()?;
        while self.tokens.keyword("OR") {
            let right = self.and()?;
            left = self.binary(Operator::Or, left, right)?;
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expression> {
        let mut left = self.not()?;
        while self.tokens.keyword("AND") {
            let right = self.not()?;
            left = self.binary(Operator::And, left, right)?;
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expression> {
        if self.tokens.keyword("NOT") {
            self.count(1)?;
            return Ok(Expression::Not(Box::new(self.nested(Parser::not)?)));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Expression> {
        let left = self.sum()?;
        if let Some(operator) = self.tokens.peek().and_then(Operator::of_comparison) {
            self.tokens.skip();
            let right = self.sum()?;
            return self.binary(operator, left, right);
        }
        if self.tokens.keyword("IS") {
            let is_negated = self.tokens.keyword("NOT");
            self.tokens.expect_keyword("NULL")?;
            self.count(1)?;
            return Ok(Self::not_if(is_negated, Expression::IsNull(Box::new(left))));
        }
        let is_negated = self.tokens.keyword("NOT");
        let found = if self.tokens.keyword("IN") {
            self.in_list(&left)?
        } else if self.tokens.keyword("BETWEEN") {
            self.between(left)?
        } else if is_negated {
            return Err(self.tokens.expected("IN or BETWEEN"));
        } else {
            return Ok(left);
        };
        Ok(Self::not_if(is_negated, found))
    }

    fn in_list(&mut self, left: &Expression) -> Result<Expression> {
        self.tokens.expect_symbol("(")?;
        let mut found: Option<Expression> = None;
        loop {
            let right = self.sum()?;
            self.count(left.size())?;
            let equal = self.binary(Operator::Equal, left.clone(), right)?;
            found = Some(match found {
                None => equal,
                Some(before) => self.binary(Operator::Or, before, equal)?,
            });
            if !self.tokens.symbol(",") {
                break;
            }
        }
        self.tokens.expect_symbol(")")?;
        found.ok_or_else(|| self.tokens.expected("a value"))
    }

    fn between(&mut self, left: Expression) -> Result<Expression> {
        self.count(left.size())?;
        let least = self.sum()?;
        self.tokens.expect_keyword("AND")?;
        let most = self.sum()?;
        let above = self.binary(Operator::GreaterOrEqual, left.clone(), least)?;
        let below = self.binary(Operator::LessOrEqual, left, most)?;
        self.binary(Operator::And, above, below)
    }

    fn sum(&mut self) -> Result<Expression> {
        let mut left = self.product()?;
        while let Some(operator) = self.tokens.peek().and_then(Operator::of_sum) {
            self.tokens.skip();
            let right = self.product()?;
            left = self.binary(operator, left, right)?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expression> {
        let mut left = self.value()?;
        while let Some(operator) = self.tokens.peek().and_then(Operator::of_product) {
            self.tokens.skip();
            let right = self.value()?;
            left = self.binary(operator, left, right)?;
        }
        Ok(left)
    }

    fn value(&mut self) -> Result<Expression> {
        self.count(1)?;
        if self.tokens.symbol("-") {
            return Ok(Expression::Negative(Box::new(self.nested(Parser::value)?)));
        }
        if self.tokens.symbol("(") {
            let expression = self.expression()?;
            self.tokens.expect_symbol(")")?;
            return Ok(expression);
        }
        let value = match self.tokens.peek() {
            Some(Token::Integer(value)) => Expression::Integer(*value),
            Some(Token::Float(value)) => Expression::Float(*value),
            Some(Token::Text(text)) => Expression::Text(text.clone()),
            Some(Token::Name(name)) => Expression::Column(name.clone()),
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("TRUE") => Expression::Boolean(true),
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("FALSE") => Expression::Boolean(false),
            Some(Token::Word(word)) => Expression::Column((*word).to_owned()),
            _ => return Err(self.tokens.expected("a column, a number or a 'text'")),
        };
        self.tokens.skip();
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text with all brackets.
    fn shown(expression: &Expression) -> String {
        match expression {
            Expression::Column(name) => name.clone(),
            Expression::Integer(value) => value.to_string(),
            Expression::Float(value) => value.to_string(),
            Expression::Text(text) => format!("'{text}'"),
            Expression::Boolean(value) => value.to_string(),
            Expression::Negative(of) => format!("(- {})", shown(of)),
            Expression::Not(of) => format!("(not {})", shown(of)),
            Expression::IsNull(of) => format!("(null {})", shown(of)),
            Expression::Binary(operator, left, right) => {
                format!("({} {operator:?} {})", shown(left), shown(right))
            }
        }
    }

    #[test]
    fn operators_bind_as_in_sql() {
        for (text, expected) in [
            ("a+b*2", "(a Add (b Multiply 2))"),
            ("a - b - c", "((a Subtract b) Subtract c)"),
            ("-a*-1.5", "((- a) Multiply (- 1.5))"),
            ("(a+b)/2>=1e2", "(((a Add b) Divide 2) GreaterOrEqual 100)"),
            ("a=1 or b<>2 and not c", "((a Equal 1) Or ((b NotEqual 2) And (not c)))"),
            ("x is not null AND y IS NULL", "((not (null x)) And (null y))"),
            ("o in ('FRA','it''s')", "((o Equal 'FRA') Or (o Equal 'it's'))"),
            (
                "\"my \"\"column\" not between 1 and 2",
                "(not ((my \"column GreaterOrEqual 1) And (my \"column LessOrEqual 2)))",
            ),
            ("größe < 3 and true", "((größe Less 3) And true)"),
        ] {
            assert_eq!(shown(&Expression::parse(text).expect(text)), expected, "{text}");
        }
    }

    /// Promise: An invalid expression is refused with the error and its position.
    #[test]
    fn refuses_what_is_wrong_and_what_is_long() {
        let nested = "(".repeat(100_000) + "a";
        let long = "a+".repeat(5000) + "a";
        let listed = format!("a+a+a in ({}1)", "1,".repeat(3000));
        let signs = "-".repeat(100_000) + "a";
        for (text, words) in [
            ("", "at its end: expected a column"),
            ("a+", "at its end: expected a column"),
            ("a b", "at character 3: expected the end"),
            ("(a", "at its end: expected `)`"),
            ("a not 3", "expected IN or BETWEEN"),
            ("a is 3", "at character 6: expected NULL"),
            ("a = 'x", "a text that does not end"),
            ("a ; drop", "at character 3: unknown character `;`"),
            ("99999999999999999999", "a number that is too large"),
            (&nested, "nested deeper than 32"),
            (&signs, "nested deeper than 32"),
            (&long, "more than 256 operands"),
            (&listed, "more than 256 operands"),
        ] {
            let error = Expression::parse(text).expect_err(text).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}

//! Expressions: columns, numbers, texts, arithmetic, comparisons and logic, in the notation of SQL.

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// Values of a column.
    Column(String),
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// A text; also a date or time, beside a column of those.
    Text(String),
    /// True or false.
    Boolean(bool),
    /// The negative.
    Negative(Box<Expression>),
    /// The opposite.
    Not(Box<Expression>),
    /// True where there is no value.
    IsNull(Box<Expression>),
    /// Two operands.
    Binary(Operator, Box<Expression>, Box<Expression>),
}

/// Operator with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // their names
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
}

impl Expression {
    /// Adds the names of its columns to these.
    pub fn add_columns<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Expression::Column(name) => names.push(name),
            Expression::Negative(of) | Expression::Not(of) | Expression::IsNull(of) => of.add_columns(names),
            Expression::Binary(_, left, right) => {
                left.add_columns(names);
                right.add_columns(names);
            }
            _ => {}
        }
    }

    /// Most values that are held while it is computed: the left operand while the right one is.
    pub(crate) fn held(&self) -> usize {
        match self {
            Expression::Negative(of) | Expression::Not(of) | Expression::IsNull(of) => of.held(),
            Expression::Binary(_, left, right) => left.held().max(1 + right.held()),
            _ => 1,
        }
    }

    /// Number of its operands and operators.
    pub(crate) fn size(&self) -> usize {
        1 + match self {
            Expression::Negative(of) | Expression::Not(of) | Expression::IsNull(of) => of.size(),
            Expression::Binary(_, left, right) => left.size() + right.size(),
            _ => 0,
        }
    }
}

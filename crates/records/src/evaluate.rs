//! Values of expressions, by the kernels of Arrow. Whole numbers are computed in 64 bits, others as `Float64`;
//! overflow is an error. `/` divides numbers with fractions. Null stays null; AND and OR are those of SQL.

use std::sync::Arc;

use arrow_arith::{boolean, numeric};
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Datum, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array,
};
use arrow_buffer::Buffer;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_ord::cmp;
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;

use crate::batch::Computed;
use crate::error::{RecordsError, Result};
use crate::expression::{Expression, Operator};

/// Values of an expression: one for each record, or one for all.
pub(crate) struct Value {
    array: ArrayRef,
    is_scalar: bool,
}

impl Datum for Value {
    fn get(&self) -> (&dyn Array, bool) {
        (&*self.array, self.is_scalar)
    }
}

/// Error of a kernel.
pub(crate) fn uncomputed(error: ArrowError) -> RecordsError {
    RecordsError::Query(format!("cannot compute: {error}"))
}

/// Computes an expression over records, which have its columns.
pub(crate) fn evaluate(expression: &Expression, records: &RecordBatch) -> Result<Value> {
    let scalar = |array: ArrayRef| Ok(Value { array, is_scalar: true });
    match expression {
        Expression::Column(name) => {
            let column = records.column_by_name(name);
            let array = column.ok_or_else(|| RecordsError::query(format!("no column {name}")))?;
            Ok(Value { array: Arc::clone(array), is_scalar: false })
        }
        Expression::Integer(value) => scalar(Arc::new(Int64Array::from_value(*value, 1))),
        Expression::Float(value) => scalar(Arc::new(Float64Array::from_value(*value, 1))),
        Expression::Text(text) => scalar(Arc::new(StringArray::from_iter_values([text]))),
        Expression::Boolean(value) => scalar(Arc::new(BooleanArray::from(vec![*value]))),
        Expression::Negative(of) => {
            let value = evaluate(of, records)?;
            let wide = wide(&[&value]).ok_or_else(|| unfit("-", &[&value]))?;
            let value = value.cast(&wide)?;
            Ok(Value { array: numeric::neg(&value.array).map_err(uncomputed)?, ..value })
        }
        Expression::Not(of) => {
            let value = evaluate(of, records)?;
            let truth = value.truth("NOT")?;
            Ok(Value { array: Arc::new(boolean::not(truth).map_err(uncomputed)?), ..value })
        }
        Expression::IsNull(of) => {
            let value = evaluate(of, records)?;
            Ok(Value { array: Arc::new(boolean::is_null(&value.array).map_err(uncomputed)?), ..value })
        }
        Expression::Binary(operator, left, right) => {
            binary(*operator, evaluate(left, records)?, evaluate(right, records)?)
        }
    }
}

fn binary(operator: Operator, left: Value, right: Value) -> Result<Value> {
    use Operator::*;
    match operator {
        And | Or => logic(operator, left, right),
        Add | Subtract | Multiply | Divide | Remainder => arithmetic(operator, left, right),
        Equal => compare(cmp::eq, left, right),
        NotEqual => compare(cmp::neq, left, right),
        Less => compare(cmp::lt, left, right),
        LessOrEqual => compare(cmp::lt_eq, left, right),
        Greater => compare(cmp::gt, left, right),
        GreaterOrEqual => compare(cmp::gt_eq, left, right),
    }
}

fn logic(operator: Operator, left: Value, right: Value) -> Result<Value> {
    let is_scalar = left.is_scalar && right.is_scalar;
    let rows = if left.is_scalar { right.array.len() } else { left.array.len() };
    let name = if operator == Operator::And { "AND" } else { "OR" };
    left.truth(name)?;
    right.truth(name)?;
    let (left, right) = (left.into_array(rows)?, right.into_array(rows)?);
    let kernel = if operator == Operator::And { boolean::and_kleene } else { boolean::or_kleene };
    let array = kernel(left.as_boolean(), right.as_boolean()).map_err(uncomputed)?;
    Ok(Value { array: Arc::new(array), is_scalar })
}

fn arithmetic(operator: Operator, left: Value, right: Value) -> Result<Value> {
    let (name, kernel): (_, fn(&dyn Datum, &dyn Datum) -> _) = match operator {
        Operator::Add => ("+", numeric::add),
        Operator::Subtract => ("-", numeric::sub),
        Operator::Multiply => ("*", numeric::mul),
        Operator::Divide => ("/", numeric::div),
        _ => ("%", numeric::rem),
    };
    let wide = wide(&[&left, &right]).ok_or_else(|| unfit(name, &[&left, &right]))?;
    let wide = if operator == Operator::Divide { DataType::Float64 } else { wide };
    let (left, right) = (left.cast(&wide)?, right.cast(&wide)?);
    let array = kernel(&left, &right).map_err(uncomputed)?;
    Ok(Value { array, is_scalar: left.is_scalar && right.is_scalar })
}

type Comparison = fn(&dyn Datum, &dyn Datum) -> std::result::Result<BooleanArray, ArrowError>;

fn compare(kernel: Comparison, left: Value, right: Value) -> Result<Value> {
    let (of_left, of_right) = (left.plain_type(), right.plain_type());
    let is_text = |of: &DataType| matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let (left, right) = if of_left == of_right {
        (left, right)
    } else if let Some(wide) = wide(&[&left, &right]) {
        (left.cast(&wide)?, right.cast(&wide)?)
    } else if right.is_scalar && is_text(&of_right) && (is_text(&of_left) || of_left.is_temporal()) {
        // A date or time is written as a text.
        (left, right.cast(&with_offset(&of_left))?.cast(&of_left)?)
    } else if left.is_scalar && is_text(&of_left) && (is_text(&of_right) || of_right.is_temporal()) {
        (left.cast(&with_offset(&of_right))?.cast(&of_right)?, right)
    } else if is_text(&of_left) && is_text(&of_right) {
        // Views, since texts that many records share must not be copied for each.
        (left.cast(&DataType::Utf8View)?, right.cast(&DataType::Utf8View)?)
    } else {
        return Err(unfit("a comparison", &[&left, &right]));
    };
    let array = Arc::new(kernel(&left, &right).map_err(uncomputed)?);
    Ok(Value { array, is_scalar: left.is_scalar && right.is_scalar })
}

/// The type as which a text is read. Of time zones, only offsets are known; times are stored in UTC, whatever theirs.
fn with_offset(of: &DataType) -> DataType {
    match of {
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some("+00:00".into())),
        other => other.clone(),
    }
}

/// The type in which numbers are computed; none if one of the values is no number.
fn wide(values: &[&Value]) -> Option<DataType> {
    let types: Vec<DataType> = values.iter().map(|value| value.plain_type()).collect();
    if !types.iter().all(DataType::is_numeric) {
        return None;
    }
    Some(if types.iter().all(DataType::is_integer) { DataType::Int64 } else { DataType::Float64 })
}

fn unfit(what: &str, values: &[&Value]) -> RecordsError {
    let types: Vec<String> = values.iter().map(|value| value.plain_type().to_string()).collect();
    RecordsError::query(format!("{what} is not possible with {}", types.join(" and ")))
}

impl Value {
    /// Its type without encoding.
    fn plain_type(&self) -> DataType {
        match self.array.data_type() {
            DataType::Dictionary(_, values) => (**values).clone(),
            DataType::RunEndEncoded(_, values) => values.data_type().clone(),
            plain => plain.clone(),
        }
    }

    fn cast(self, to: &DataType) -> Result<Value> {
        if self.array.data_type() == to {
            return Ok(self);
        }
        // A value that does not fit is an error, not null.
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let array = cast_with_options(&self.array, to, &options).map_err(uncomputed)?;
        Ok(Value { array, ..self })
    }

    fn truth(&self, what: &str) -> Result<&BooleanArray> {
        self.array.as_boolean_opt().ok_or_else(|| unfit(what, &[self]))
    }

    /// So many values.
    pub(crate) fn into_array(self, rows: usize) -> Result<ArrayRef> {
        if !self.is_scalar {
            return Ok(self.array);
        }
        take(&self.array, &UInt32Array::from_value(0, rows), None).map_err(uncomputed)
    }
}

impl Computed {
    /// The buffers of computed numbers or truth.
    pub(crate) fn of(array: &ArrayRef) -> Computed {
        let data = array.to_data();
        let nulls = data.nulls().filter(|nulls| nulls.null_count() > 0);
        let validity = nulls.map_or_else(|| Buffer::from(Vec::<u8>::new()), |nulls| nulls.inner().sliced());
        let values = match array.as_boolean_opt() {
            Some(truth) => truth.values().sliced(),
            // Numbers of 64 bits.
            None => data.buffers()[0].slice_with_length(data.offset() * 8, data.len() * 8),
        };
        Computed { nulls: data.null_count(), buffers: [validity, values] }
    }
}

//! Plan of an answer: its schema, and where each of its fields comes from.

use arrow_schema::{Field, Schema};

use crate::decode::BatchLimits;
use crate::error::{RecordsError, Result};
use crate::expression::Expression;
use crate::query::{Format, Wanted};
use crate::stored::{Form, Stored};

/// Most fields that are computed for an answer.
const MOST_DERIVED: usize = 64;

/// Most records of a record batch that is computed with.
const MOST_ROWS: i64 = 1 << 24;

/// Most fields of an answer.
const MOST_FIELDS: usize = 20_000;

/// Most arrays of an answer: its columns with their children.
const MOST_ARRAYS: usize = 1 << 16;

/// Most values that are held while a record batch is computed with: 1 GiB of them.
const MOST_VALUES: i64 = 1 << 27;

/// Plan of an answer.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) fields: Vec<Source<'a>>,
    pub(crate) filter: Option<&'a Expression>,
    pub(crate) form: Form,
    /// Limits of a record batch that is computed with.
    pub(crate) limits: BatchLimits,
}

/// Source of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    /// A column of the file.
    Stored { column: usize, name: &'a str },
    /// Values that are computed.
    Derived { name: &'a str, value: &'a Expression },
}

impl<'a> Plan<'a> {
    /// The plan for stored records.
    pub(crate) fn new(stored: &'a Stored, format: &'a Format) -> Result<Plan<'a>> {
        let mut fields = Vec::new();
        for wanted in &format.fields {
            match wanted {
                Wanted::All => fields.extend(
                    stored
                        .schema
                        .fields()
                        .iter()
                        .enumerate()
                        .map(|(column, field)| Source::Stored { column, name: field.name() }),
                ),
                Wanted::Column { column, name } => {
                    fields.push(Source::Stored { column: stored.column(column)?, name });
                }
                Wanted::Derived { name, value } => fields.push(Source::Derived { name, value }),
            }
            if fields.len() > MOST_FIELDS {
                return Err(RecordsError::query(format!("more than {MOST_FIELDS} fields; select less")));
            }
        }
        let derived = fields.iter().filter(|field| matches!(field, Source::Derived { .. })).count();
        if derived > MOST_DERIVED {
            return Err(RecordsError::query(format!(
                "more than {MOST_DERIVED} computed fields; ask for less"
            )));
        }
        let (filter, form) = (format.filter.as_ref(), format.form.unwrap_or(stored.form));
        let limits = BatchLimits { most_rows: MOST_ROWS, decompresses: true };
        let mut plan = Plan { fields, filter, form, limits };
        if plan.arrays(stored) > MOST_ARRAYS {
            let why = format!("more than {MOST_ARRAYS} columns with those within them; select less");
            return Err(RecordsError::query(why));
        }
        plan.limits.most_rows = MOST_ROWS.min(MOST_VALUES / plan.held_values() as i64);
        // Names that do not exist are refused before anything is read.
        plan.computed_from(stored)?;
        Ok(plan)
    }

    /// Returns whether nothing has to be computed.
    pub(crate) fn is_projection(&self) -> bool {
        self.filter.is_none() && self.fields.iter().all(|field| matches!(field, Source::Stored { .. }))
    }

    /// Arrays of its fields: columns with their children.
    pub(crate) fn arrays(&self, stored: &Stored) -> usize {
        let arrays = |field: &Source<'_>| match field {
            Source::Stored { column, .. } => stored.layouts[*column].nodes,
            Source::Derived { .. } => 1,
        };
        self.fields.iter().map(arrays).sum()
    }

    /// Values that may be held at a time for each record, those of its columns aside.
    fn held_values(&self) -> usize {
        /// Operands in the type in which they are computed.
        const OPERANDS: usize = 2;
        let value = |field: &Source<'a>| match *field {
            Source::Stored { .. } => None,
            Source::Derived { value, .. } => Some(value),
        };
        let derived = self.fields.iter().filter_map(value);
        let within = derived.clone().chain(self.filter).map(Expression::held).max();
        derived.count() + within.unwrap_or(0) + OPERANDS
    }

    /// Steps of computing for each record.
    pub(crate) fn operations(&self) -> usize {
        let steps = |field: &Source<'_>| match field {
            Source::Stored { .. } => 1,
            Source::Derived { value, .. } => value.size(),
        };
        self.filter.map_or(0, Expression::size) + self.fields.iter().map(steps).sum::<usize>()
    }

    /// Columns that expressions need, in order.
    pub(crate) fn computed_from(&self, stored: &Stored) -> Result<Vec<usize>> {
        let mut names = Vec::new();
        for field in &self.fields {
            if let Source::Derived { value, .. } = field {
                value.add_columns(&mut names);
            }
        }
        if let Some(filter) = self.filter {
            filter.add_columns(&mut names);
        }
        let columns: Result<Vec<usize>> = names.into_iter().map(|name| stored.column(name)).collect();
        let mut columns = columns?;
        columns.sort_unstable();
        columns.dedup();
        Ok(columns)
    }

    /// Columns that are in the answer, in its order.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let column = |field: &Source<'_>| match field {
            Source::Stored { column, .. } => Some(*column),
            Source::Derived { .. } => None,
        };
        self.fields.iter().filter_map(column).collect()
    }

    /// The schema of the answer; `derived` has the fields that are computed, in order.
    pub(crate) fn schema(&self, stored: &Stored, derived: Vec<Field>) -> Schema {
        let mut derived = derived.into_iter();
        let field = |field: &Source<'_>| match *field {
            Source::Stored { column, name } => Some(stored.schema.field(column).clone().with_name(name)),
            Source::Derived { .. } => derived.next(),
        };
        let fields: Vec<Field> = self.fields.iter().filter_map(field).collect();
        Schema::new_with_metadata(fields, stored.schema.metadata().clone())
    }
}

impl Stored {
    /// The number of a column.
    fn column(&self, name: &str) -> Result<usize> {
        let mut found = (0..).zip(self.schema.fields()).filter(|(_, field)| field.name() == name);
        let shown: String = name.chars().take(100).collect();
        match (found.next(), found.next()) {
            (Some((number, _)), None) => Ok(number),
            (Some(_), Some(_)) => Err(RecordsError::query(format!(
                "the records have several columns `{shown}`; ask for all by *"
            ))),
            (None, _) => {
                Err(RecordsError::query(format!("the records have no column `{shown}`; ?schema lists them")))
            }
        }
    }
}

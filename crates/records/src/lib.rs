//! Server of self-describing records (Arrow IPC): a client asks for the columns, the computed fields and the
//! records that it needs, and in which form.
//!
//! It is an application of the stream service, small enough to be read ([`docs/records.md`]). Columns of a file are
//! extents, so of a selection only metadata is made, and no value is read.
//!
//! [`docs/records.md`]: ../../../docs/records.md

// In the order of their dependencies.
mod error;
mod layout;
mod limits;

mod batch;
mod compression;
mod stored;

mod encode;
mod token;

mod assembly;
mod expression;

mod parser;

mod query;

mod decode;
mod evaluate;
mod plan;

mod answer;

mod records;

mod lines;
mod site;

pub use answer::{Answered, answer};
pub use error::RecordsError;
pub use expression::{Expression, Operator};
pub use limits::{Budget, Limits};
pub use lines::LineListener;
pub use query::{FORMAT_LIMIT, Format, Question, Wanted};
pub use records::Records;
pub use site::RecordSite;
pub use stored::{Form, Stored};

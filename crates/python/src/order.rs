//! Orders of inputs by a number that a function of Python reads from each record.

use std::panic::resume_unwind;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wirepath_streams::{Late, StreamBuilder};

use crate::handler::{Raised, keep, refusing_waits};
use crate::values::{self, at_least_one};

/// Most records that wait for others, by default, and about how many bytes of them.
const WINDOW: usize = 1024;
const WAITING_BYTES: usize = 1 << 20;

/// Order by a tag of records.
#[pyclass(frozen, module = "wirepath")]
pub(crate) struct ByTag {
    reader: Reader,
    late: Late,
}

#[pymethods]
impl ByTag {
    #[new]
    #[pyo3(signature = (tag, *, window = WINDOW, waiting_bytes = WAITING_BYTES, late = "drop"))]
    fn new(tag: Bound<'_, PyAny>, window: usize, waiting_bytes: usize, late: &str) -> PyResult<ByTag> {
        let late = match late {
            "drop" => Late::Drop,
            "pass" => Late::Pass,
            other => {
                return Err(PyValueError::new_err(format!("invalid late {other:?}: expected drop or pass")));
            }
        };
        Ok(ByTag { reader: Reader::new(tag, window, waiting_bytes)?, late })
    }
}

/// Join of records with the same key.
#[pyclass(frozen, module = "wirepath")]
pub(crate) struct JoinByKey(Reader);

#[pymethods]
impl JoinByKey {
    #[new]
    #[pyo3(signature = (key, *, window = WINDOW, waiting_bytes = WAITING_BYTES))]
    fn new(key: Bound<'_, PyAny>, window: usize, waiting_bytes: usize) -> PyResult<JoinByKey> {
        Reader::new(key, window, waiting_bytes).map(JoinByKey)
    }
}

/// A function that reads the number of a record, and the bounds for records that wait.
struct Reader {
    function: Py<PyAny>,
    window: usize,
    waiting_bytes: usize,
}

impl Reader {
    fn new(function: Bound<'_, PyAny>, window: usize, waiting_bytes: usize) -> PyResult<Reader> {
        if !function.is_callable() {
            return Err(PyTypeError::new_err("a tag or key is a function of one argument, a record"));
        }
        let window = at_least_one(window, "window")?;
        let waiting_bytes = at_least_one(waiting_bytes, "waiting_bytes")?;
        Ok(Reader { function: function.unbind(), window, waiting_bytes })
    }
}

/// Sets the order of a stream; round robin if there is none.
pub(crate) fn ordered(
    builder: StreamBuilder,
    order: Option<&Bound<'_, PyAny>>,
    raised: &Raised,
) -> PyResult<StreamBuilder> {
    let Some(order) = order else { return Ok(builder) };
    if let Ok(by_tag) = order.cast::<ByTag>() {
        let ByTag { reader: Reader { function, window, waiting_bytes }, late } = by_tag.get();
        let tag = number_of(function.clone_ref(order.py()), Raised::clone(raised));
        return Ok(builder.order_by_tag(*window, *waiting_bytes, *late, tag));
    }
    if let Ok(join) = order.cast::<JoinByKey>() {
        let JoinByKey(Reader { function, window, waiting_bytes }) = join.get();
        let key = number_of(function.clone_ref(order.py()), Raised::clone(raised));
        return Ok(builder.join_by_key(*window, *waiting_bytes, key));
    }
    let name: String =
        order.extract().map_err(|_| PyTypeError::new_err("an order is a name, ByTag or JoinByKey"))?;
    Ok(builder.order(values::order(&name)?))
}

/// Reads the number of a record by a function of Python, whose exception ends the stream.
fn number_of(function: Py<PyAny>, raised: Raised) -> impl FnMut(&[u8]) -> Option<u64> + Send + 'static {
    move |record: &[u8]| {
        let number = Python::try_attach(|py| {
            let record = PyBytes::new(py, record);
            let answer = refusing_waits(|| function.bind(py).call1((record,)));
            let number = answer.and_then(|number| number.extract::<Option<u64>>());
            number.map_err(|error| keep(py, error, &raised))
        });
        match number.unwrap_or_else(|| Err("the interpreter is ending".to_owned())) {
            Ok(number) => number,
            // As if it had panicked, without a message on standard error: so functions of an order end a
            // stream.
            Err(reason) => resume_unwind(Box::new(reason)),
        }
    }
}

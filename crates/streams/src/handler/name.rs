//! Names of handlers that are known only at run time.

use std::collections::BTreeSet;

use parking_lot::Mutex;

/// Most names that are kept, and most bytes of each name. Names are kept until the program ends.
const MOST: usize = 4096;
const LONGEST: usize = 255;

static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Error of [`handler_name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerNameError {
    /// The name is empty or too long.
    #[error("name of a handler with {0} bytes: expected 1 to {LONGEST}")]
    Length(usize),
    /// Too many other names are kept.
    #[error("too many names of handlers: {MOST} are kept; use one for all handlers of a kind")]
    TooMany,
}

/// Makes a name for [`Common::name`](super::Common::name) at run time, as a binding of another language
/// needs. The name is kept until the program ends, once for all handlers of this name.
///
/// # Errors
/// The name does not have 1 to 255 bytes, or 4,096 other names are kept.
pub fn handler_name(name: &str) -> Result<&'static str, HandlerNameError> {
    if !(1..=LONGEST).contains(&name.len()) {
        return Err(HandlerNameError::Length(name.len()));
    }
    let mut names = NAMES.lock();
    if let Some(kept) = names.get(name) {
        return Ok(kept);
    }
    if names.len() >= MOST {
        return Err(HandlerNameError::TooMany);
    }
    let kept: &'static str = Box::leak(name.into());
    names.insert(kept);
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_once_and_are_bounded() {
        let first = handler_name("gray").unwrap();
        assert!(std::ptr::eq(first, handler_name(&["gr", "ay"].concat()).unwrap()));
        for length in [0, LONGEST + 1] {
            assert_eq!(handler_name(&"x".repeat(length)), Err(HandlerNameError::Length(length)));
        }
        assert!((1..MOST).all(|number| handler_name(&number.to_string()).is_ok()));
        assert_eq!(handler_name("another"), Err(HandlerNameError::TooMany));
        assert_eq!(handler_name("gray"), Ok("gray"));
    }
}

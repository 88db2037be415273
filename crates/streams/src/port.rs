use std::fmt;

/// Number of an input or output of a stream, unique within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(pub(crate) u64);

impl Port {
    /// Token of the port's descriptor. Port numbers count up from 0, and a stream never has 2^32 ports at the
    /// same time.
    pub(crate) fn token(self) -> u32 {
        self.0 as u32
    }

    /// Number of the port: inputs and outputs are counted from 0 in the order of attaching; outputs of a
    /// [builder](crate::StreamBuilder) come before its inputs.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Port with this number, for a caller that kept only the number, such as a binding of another language.
    /// Methods of a stream that has no such port return an error.
    pub fn from_number(number: u64) -> Port {
        Port(number)
    }

    pub(crate) fn of_token(token: u32) -> Port {
        Port(token.into())
    }
}

/// Displays the number, which distinguishes outputs of the same name.
impl fmt::Display for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

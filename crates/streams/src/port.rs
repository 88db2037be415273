use std::fmt;

/// Number of an input or output of a stream, unique within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(pub(crate) u64);

impl Port {
    /// Token of the port's descriptor. Ports are counted up from 0, and a stream does not have 2^32 of them
    /// at a time.
    pub(crate) fn token(self) -> u32 {
        self.0 as u32
    }

    /// Its number: inputs and outputs are counted from 0 as they are attached, those of a
    /// [builder](crate::StreamBuilder) with the outputs first.
    pub fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn of_token(token: u32) -> Port {
        Port(token.into())
    }
}

/// Its number, which tells outputs of one name apart.
impl fmt::Display for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

//! Inputs, outputs and what is between them, made a stream.

use wirepath_streams::{
    InputOrder, MOST_SHARES, Object, OutputOptions, OutputPattern, SHARE_HEADER, Stream, StreamBuilder,
    StreamEvent, WhenFull,
};

use crate::address::{Address, Claim};
use crate::open::OpenError;
use crate::opening::Opening;
use crate::spec::{FramingSpec, HandlerSpec, OrderSpec, PatternSpec, SpecError, WhenFullSpec};

/// Bytes that may wait for a file, where an output for which more waits loses something.
const WAITING_FOR_FILE: usize = 16 << 20;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Wiring {
    /// Where bytes come from, at least one.
    pub inputs: Vec<Address>,
    /// Where they go, at least one.
    pub outputs: Vec<Address>,
    /// How inputs are divided.
    pub framing: FramingSpec,
    /// The order of inputs.
    pub order: OrderSpec,
    /// How records are spread over outputs.
    pub pattern: PatternSpec,
    /// In the order in which they see records.
    pub handlers: Vec<HandlerSpec>,
    /// What happens when an output takes nothing.
    pub when_full: WhenFullSpec,
}

impl Default for Wiring {
    /// Nothing yet, between which nothing happens: all inputs as they come, to all outputs, which are waited for.
    fn default() -> Wiring {
        Wiring {
            inputs: Vec::new(),
            outputs: Vec::new(),
            framing: FramingSpec::Whole,
            order: OrderSpec::Plain(InputOrder::Arrival),
            pattern: PatternSpec(OutputPattern::Mirror),
            handlers: Vec::new(),
            when_full: WhenFullSpec(WhenFull::Block),
        }
    }
}

/// Most bytes of a datagram: those of an IPv4 packet without its header and that of UDP.
const LONGEST_DATAGRAM: usize = 65_507;

/// Why it cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum WiringError {
    /// Something could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Nobody waits for it any more.
    #[error("opening was given up")]
    GivenUp,
    /// A handler cannot be made.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// An input would be written over while it is read, or never end.
    #[error("{output} is the same file as {input}")]
    SameFile {
        /// To be read.
        input: Box<Address>,
        /// To be written.
        output: Box<Address>,
    },
    /// There are too few outputs for shares.
    #[error("shares:{threshold} takes at least {threshold} outputs, and there {are}", are = are(*outputs))]
    TooFewOutputs {
        /// What it takes.
        threshold: u8,
        /// What there is.
        outputs: usize,
    },
    /// Nobody can tell where one share ends and the next begins.
    #[error(
        "{input}: shares over a stream of bytes need --framing fixed:BYTES, with the BYTES that records had \
         where they were shared and {SHARE_HEADER} more: fixed:65548 where that was fixed:64KiB"
    )]
    SharesWithoutBounds {
        /// Which input.
        input: Box<Address>,
    },
    /// No datagram takes a record, or a part or share of one.
    #[error(
        "{output}: a datagram has at most {LONGEST_DATAGRAM} bytes, and each would have {bytes}; choose a shorter framing or stripe, \
         such as fixed:1316"
    )]
    TooLongForDatagrams {
        /// Which output.
        output: Box<Address>,
        /// Of what would be one.
        bytes: usize,
    },
    /// There are too many.
    #[error("shares take at most {MOST_SHARES} outputs, and there are {outputs}")]
    TooManyOutputs {
        /// What there is.
        outputs: usize,
    },
}

impl Wiring {
    /// Whether inputs, outputs and what is between them go together, as far as that is seen without opening anything.
    ///
    /// # Errors
    /// If there are fewer or more outputs than shares take, shares come with no bounds, or records are too long for an output.
    pub fn check(&self) -> Result<(), WiringError> {
        if let (OrderSpec::Shares { .. }, FramingSpec::Whole) = (&self.order, &self.framing)
            && let Some(input) = self.inputs.iter().find(|input| !input.has_datagrams())
        {
            return Err(WiringError::SharesWithoutBounds { input: Box::new(input.clone()) });
        }
        if let Some(bytes) = self.sent_bytes()
            && bytes > LONGEST_DATAGRAM
            && let Some(output) = self.outputs.iter().find(|output| output.has_datagrams())
        {
            return Err(WiringError::TooLongForDatagrams { output: Box::new(output.clone()), bytes });
        }
        let OutputPattern::Shares { threshold } = self.pattern.0 else { return Ok(()) };
        let outputs = self.outputs.len();
        if outputs < usize::from(threshold) {
            return Err(WiringError::TooFewOutputs { threshold, outputs });
        }
        if outputs > MOST_SHARES {
            return Err(WiringError::TooManyOutputs { outputs });
        }
        Ok(())
    }

    /// Bytes of what an output gets at a time, as far as that is known: a part of a stripe, a record, or a share of one.
    fn sent_bytes(&self) -> Option<usize> {
        if let OutputPattern::StripeBytes(bytes) = self.pattern.0 {
            return Some(bytes);
        }
        let FramingSpec::Fixed(bytes) = self.framing else { return None };
        let is_share = matches!(self.pattern.0, OutputPattern::Shares { .. });
        let has_streams = self.inputs.iter().any(|input| !input.has_datagrams());
        has_streams.then_some(bytes.saturating_add(if is_share { SHARE_HEADER } else { 0 }))
    }

    /// What nobody else can have.
    pub(crate) fn claims(&self) -> impl Iterator<Item = Claim> {
        let inputs = self.inputs.iter().filter_map(|input| input.claim(false));
        inputs.chain(self.outputs.iter().filter_map(|output| output.claim(true)))
    }

    /// Opens everything and makes the stream, which tells `on_event` what happens to it. Blocks until connections have been made, and
    /// somebody has opened the other ends of FIFOs, for whom `on_wait` is told that it waits; for connections that others make the stream
    /// waits by itself. Until then `opening` has what listens.
    ///
    /// # Errors
    /// The first thing that could not be opened or made, or that it was given up.
    pub fn stream(
        &self,
        opening: &Opening,
        on_event: impl FnMut(StreamEvent) + Send + 'static,
        mut on_wait: impl FnMut(String),
    ) -> Result<Stream, WiringError> {
        self.check()?;
        let mut builder =
            self.order.apply(StreamBuilder::default()).pattern(self.pattern.0).on_event(on_event);
        for handler in &self.handlers {
            builder = builder.handler(handler.handler()?);
        }
        let addresses = || self.inputs.iter().chain(&self.outputs);
        opening.hold(addresses().map(Address::listen).collect::<Result<_, _>>()?);
        // Inputs first: no file is overwritten for an input that is not there.
        let mut objects = self.open_inputs(&mut on_wait)?;
        objects.extend(self.open_outputs(&mut on_wait)?);
        for (object, listening) in objects.iter_mut().zip(opening.release().ok_or(WiringError::GivenUp)?) {
            *object = object.take().or(listening);
        }
        let outputs = objects.split_off(self.inputs.len());
        for input in objects.into_iter().flatten() {
            builder = builder.input(input, self.framing.framing());
        }
        for (output, object) in self.outputs.iter().zip(outputs.into_iter().flatten()) {
            builder = builder.output_with(object, self.output_options(output));
        }
        Ok(builder.finish_outputs().build())
    }

    /// A file is written elsewhere, piece by piece, and takes nothing meanwhile: what comes at once must not be too much for it.
    fn output_options(&self, output: &Address) -> OutputOptions {
        let usual = OutputOptions { when_full: self.when_full.0, ..OutputOptions::default() };
        match self.when_full.0 {
            WhenFull::Block => usual,
            _ if output.is_file() => OutputOptions { waiting_bytes: WAITING_FOR_FILE, ..usual },
            _ => usual,
        }
    }

    /// Inputs in their order, but for those that listen.
    fn open_inputs(&self, on_wait: &mut impl FnMut(String)) -> Result<Vec<Option<Object>>, WiringError> {
        let open = |input: &Address| {
            if input.listens() {
                return Ok(None);
            }
            if input.is_fifo() {
                on_wait(format!("somebody to write to {input}"));
            }
            Ok(Some(input.open_input()?))
        };
        self.inputs.iter().map(open).collect()
    }

    /// Outputs in their order, but for those that listen. Files are opened last: none is made or overwritten for a connection that does
    /// not come about, or for which nobody waits any more.
    fn open_outputs(&self, on_wait: &mut impl FnMut(String)) -> Result<Vec<Option<Object>>, WiringError> {
        let mut opened: Vec<Option<Object>> = self.outputs.iter().map(|_| None).collect();
        for are_files in [false, true] {
            for (output, opened) in self.outputs.iter().zip(&mut opened) {
                let is_fifo = output.is_fifo();
                if !output.listens() && (output.is_file() && !is_fifo) == are_files {
                    if is_fifo {
                        on_wait(format!("somebody to read from {output}"));
                    }
                    *opened = Some(self.open_output(output)?);
                }
            }
        }
        Ok(opened)
    }

    fn open_output(&self, output: &Address) -> Result<Object, WiringError> {
        match self.inputs.iter().find(|input| input.is_same_file(output)) {
            Some(input) => Err(WiringError::SameFile {
                input: Box::new(input.clone()),
                output: Box::new(output.clone()),
            }),
            None => Ok(output.open_output()?),
        }
    }
}

fn are(outputs: usize) -> String {
    if outputs == 1 { "is 1".to_owned() } else { format!("are {outputs}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Records that no datagram can hold are refused before anything is opened.
    ///
    /// By what leaves, and not by what it is made of.
    #[test]
    fn what_is_too_long_for_a_datagram_is_refused_before_anything_is_opened() {
        let checked = |framing: &str, pattern: &str, outputs| {
            Wiring {
                inputs: vec!["-".parse().unwrap()],
                outputs: vec!["udp://127.0.0.1:9".parse().unwrap(); outputs],
                framing: framing.parse().unwrap(),
                pattern: pattern.parse().unwrap(),
                ..Wiring::default()
            }
            .check()
        };
        for (framing, pattern, outputs) in [
            ("fixed:65508", "mirror", 1),
            ("fixed:65496", "shares:2", 2),
            ("whole", "stripe:65508", 1),
            ("fixed:100", "stripe:65508", 1),
        ] {
            let refused = checked(framing, pattern, outputs);
            assert!(
                matches!(refused, Err(WiringError::TooLongForDatagrams { bytes: 65_508, .. })),
                "{framing} {pattern}: {refused:?}"
            );
        }
        for (framing, pattern, outputs) in [
            ("fixed:65507", "mirror", 1),
            ("fixed:65495", "shares:2", 2),
            ("fixed:100KiB", "stripe:1316", 1),
            ("line", "mirror", 1),
        ] {
            assert!(checked(framing, pattern, outputs).is_ok(), "{framing} {pattern}");
        }
    }
}

//! Configuration of a stream, and the opening of its addresses.

use std::path::PathBuf;

use wirepath_datapath::datagrams::MAXIMUM_PAYLOAD;
use wirepath_streams::{
    InputOrder, LendingSwitch, MOST_SHARES, Object, OutputOptions, OutputPattern, Port, SHARE_HEADER, Stream,
    StreamBuilder, StreamEvent, WhenFull,
};

use crate::address::{Address, ExclusiveUse};

use super::kernel::{KernelHandler, Obstacles};
use super::open::OpenError;
use super::open_handle::OpenHandle;
use super::spec::{
    FramingSpec, HandlerSpec, OrderSpec, OutputHandlerSpec, PatternSpec, SpecError, WhenFullSpec,
};

/// Bytes that may wait for a file before records are dropped.
const FILE_WAITING_BYTES: usize = 16 << 20;

/// Configuration of a stream.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// Addresses to read from; at least one.
    pub inputs: Vec<Address>,
    /// Addresses to write to; at least one.
    pub outputs: Vec<Address>,
    /// Division of inputs into records.
    pub framing: FramingSpec,
    /// Order in which inputs are read.
    pub order: OrderSpec,
    /// Distribution of records over outputs.
    pub pattern: PatternSpec,
    /// Handlers, in the order in which they get records.
    pub handlers: Vec<HandlerSpec>,
    /// Handlers of single outputs, which run after `handlers`; several handlers of an output run in this
    /// order.
    pub output_handlers: Vec<OutputHandlerSpec>,
    /// Folder of the object files that requests may name as `bpf` handlers.
    pub handler_folder: Option<PathBuf>,
    /// Reaction to an output that falls behind.
    pub when_full: WhenFullSpec,
    /// Rule for lending pages of files.
    pub lending: LendingSwitch,
}

/// Stream that is ready to start.
pub struct OpenedStream {
    /// The stream.
    pub stream: Stream,
    /// The kernel's part in a stream that has a `bpf` handler or may get one.
    pub kernel: Option<KernelHandler>,
}

impl Default for StreamConfig {
    /// No addresses; whole inputs in order of arrival, mirrored to all outputs, and slow outputs are waited
    /// for.
    fn default() -> StreamConfig {
        StreamConfig {
            inputs: Vec::new(),
            outputs: Vec::new(),
            framing: FramingSpec::Whole,
            order: OrderSpec::Plain(InputOrder::Arrival),
            pattern: PatternSpec(OutputPattern::Mirror),
            handlers: Vec::new(),
            output_handlers: Vec::new(),
            handler_folder: None,
            when_full: WhenFullSpec(WhenFull::Block),
            lending: LendingSwitch::default(),
        }
    }
}

/// Error in the configuration of a stream, or error of opening it.
#[derive(Debug, thiserror::Error)]
pub enum StreamConfigError {
    /// An address could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Opening was cancelled.
    #[error("opening was cancelled")]
    Cancelled,
    /// A handler could not be set up.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// An input would be overwritten while it is read, or would never end.
    #[error("{0} is the same file as {1}; write to another file")]
    SameFile(Box<Address>, Box<Address>),
    /// An output handler names an output that does not exist.
    #[error("handler of output {0}: {1} outputs are configured, counted from 1")]
    NoSuchOutput(usize, usize),
    /// There are fewer outputs than the threshold of shares.
    #[error("shares:{0} needs at least {0} outputs: {1} configured")]
    TooFewOutputs(u8, usize),
    /// There are more outputs than shares allow.
    #[error("shares allow at most {MOST_SHARES} outputs: {0} configured")]
    TooManyOutputs(usize),
    /// Shares in a byte stream have no boundaries.
    #[error(
        "{0}: shares over a stream of bytes need --framing fixed:BYTES, where BYTES is the sender's record \
         size plus {SHARE_HEADER}: fixed:65548 for fixed:64KiB"
    )]
    SharesWithoutBounds(Box<Address>),
    /// Portions that are joined by position must not get lost.
    #[error(
        "{0}: datagrams may be lost, so portions cannot be joined by position; use --order join-key:OFFSET:BYTES"
    )]
    JoinOfDatagrams(Box<Address>),
    /// A handler needs records that the framing does not provide.
    #[error("handler {0} needs records of its own format; add --framing {1}")]
    Framing(&'static str, &'static str),
    /// Records, stripes or shares are larger than a datagram.
    #[error(
        "{0}: datagrams of {1} bytes exceed the maximum of {MAXIMUM_PAYLOAD}; choose shorter records or \
         stripes, such as --framing fixed:1316"
    )]
    TooLongForDatagrams(Box<Address>, usize),
}

impl StreamConfig {
    /// Checks everything that can be checked without opening an address.
    ///
    /// # Errors
    /// Settings contradict each other.
    pub fn check(&self) -> Result<(), StreamConfigError> {
        self.check_framing()?;
        let count = self.outputs.len();
        if let Some(none) = self.output_handlers.iter().find(|handler| handler.output > count) {
            return Err(StreamConfigError::NoSuchOutput(none.output, count));
        }
        if let (OrderSpec::Shares { .. }, FramingSpec::Whole) = (&self.order, &self.framing)
            && let Some(input) = self.inputs.iter().find(|input| !input.has_datagrams())
        {
            return Err(StreamConfigError::SharesWithoutBounds(Box::new(input.clone())));
        }
        if let OrderSpec::Join { key: None, .. } = &self.order
            && let Some(input) = self.inputs.iter().find(|input| input.has_datagrams())
        {
            return Err(StreamConfigError::JoinOfDatagrams(Box::new(input.clone())));
        }
        if let Some(bytes) = self.sent_bytes()
            && bytes > MAXIMUM_PAYLOAD
            && let Some(output) = self.outputs.iter().find(|output| output.has_datagrams())
        {
            return Err(StreamConfigError::TooLongForDatagrams(Box::new(output.clone()), bytes));
        }
        let OutputPattern::Shares { threshold } = self.pattern.0 else { return Ok(()) };
        let outputs = self.outputs.len();
        if outputs < usize::from(threshold) {
            return Err(StreamConfigError::TooFewOutputs(threshold, outputs));
        }
        if outputs > MOST_SHARES {
            return Err(StreamConfigError::TooManyOutputs(outputs));
        }
        Ok(())
    }

    /// Checks that the framing provides the records that the first handler needs. Each datagram is a record.
    fn check_framing(&self) -> Result<(), StreamConfigError> {
        if self.inputs.iter().all(Address::has_datagrams) {
            return Ok(());
        }
        // Striping by bytes makes its own records, so output handlers do not depend on the framing.
        let is_first = self.handlers.is_empty() && !matches!(self.pattern.0, OutputPattern::StripeBytes(_));
        let first_of = |output: &OutputHandlerSpec| {
            self.output_handlers.iter().find(|other| other.output == output.output) == Some(output)
        };
        let of_outputs = self.output_handlers.iter().filter(|output| is_first && first_of(output));
        let firsts = self.handlers.first().into_iter().chain(of_outputs.map(|output| &output.handler));
        let needs = firsts.filter_map(|handler| handler.framing_other_than(&self.framing)).next();
        needs.map_or(Ok(()), |(handler, framing)| Err(StreamConfigError::Framing(handler, framing)))
    }

    /// Length of each write to an output, where known: the length of a stripe, a record or a share.
    fn sent_bytes(&self) -> Option<usize> {
        if let OutputPattern::StripeBytes(bytes) = self.pattern.0 {
            return Some(bytes);
        }
        let FramingSpec::Fixed(bytes) = self.framing else { return None };
        let is_share = matches!(self.pattern.0, OutputPattern::Shares { .. });
        let has_streams = self.inputs.iter().any(|input| !input.has_datagrams());
        let portions = if matches!(self.order, OrderSpec::Join { .. }) { self.inputs.len() } else { 1 };
        let bytes = bytes.saturating_mul(portions);
        has_streams.then_some(bytes.saturating_add(if is_share { SHARE_HEADER } else { 0 }))
    }

    /// Handlers of the stream and of its outputs.
    pub(super) fn all_handlers(&self) -> impl Iterator<Item = &HandlerSpec> {
        self.handlers.iter().chain(self.output_handlers.iter().map(|output| &output.handler))
    }

    /// Reasons in the configuration, apart from addresses and handlers, why the kernel cannot run a handler of
    /// the stream.
    fn kernel_obstacles(&self) -> Obstacles {
        let to_all = if !matches!(self.order, OrderSpec::Plain(_)) {
            Some("the order looks at records (--order)")
        } else {
            let is_whole = self.framing == FramingSpec::Whole;
            (!is_whole).then_some("only datagrams as they came run in the kernel (--framing whole)")
        };
        let is_mirror = self.pattern.0 == OutputPattern::Mirror;
        let to_mirrors = (!is_mirror).then_some("only mirrors run in the kernel (--pattern mirror)");
        Obstacles { to_all, to_mirrors }
    }

    /// Resources that no other stream may use.
    pub(super) fn exclusive_uses(&self) -> impl Iterator<Item = ExclusiveUse> {
        let inputs = self.inputs.iter().filter_map(|input| input.exclusive_use(false));
        inputs.chain(self.outputs.iter().filter_map(|output| output.exclusive_use(true)))
    }

    /// Opens all addresses and builds the stream, whose events go to `on_event`. Blocks until outgoing
    /// connections are made and FIFOs have a peer; `on_wait` gets a phrase about each FIFO that is waited
    /// for. The running stream waits for incoming connections; until it runs, `handle` owns the listeners.
    ///
    /// # Errors
    /// The first address or handler that failed, or that opening was cancelled.
    pub fn open(
        &self,
        handle: &OpenHandle,
        on_event: impl FnMut(StreamEvent) + Send + 'static,
        mut on_wait: impl FnMut(String),
    ) -> Result<OpenedStream, StreamConfigError> {
        self.check()?;
        let mut builder =
            self.order.apply(StreamBuilder::default()).pattern(self.pattern.0).on_event(on_event);
        let mut kernel = KernelHandler::of(&self.handlers, self.handler_folder.is_some())?;
        let mut placeable = kernel.as_ref().and_then(KernelHandler::handler);
        for handler in &self.handlers {
            let of_kernel = handler.object_file().and_then(|_| placeable.take());
            builder = builder.handler(match of_kernel {
                Some(handler) => handler,
                None => handler.handler()?,
            });
        }
        let addresses = || self.inputs.iter().chain(&self.outputs);
        handle.keep(addresses().map(Address::listen).collect::<Result<_, _>>()?);
        // Inputs are opened first: a missing input must not overwrite an output file.
        let mut objects = self.open_inputs(&mut on_wait)?;
        objects.extend(self.open_outputs(&mut on_wait)?);
        for (object, listening) in objects.iter_mut().zip(handle.take().ok_or(StreamConfigError::Cancelled)?)
        {
            *object = object.take().or(listening);
        }
        let outputs = objects.split_off(self.inputs.len());
        if let Some(kernel) = &mut kernel {
            let settings = kernel.at_start(&self.handlers, self.output_handlers.len(), self.outputs.len());
            let may_change = self.handler_folder.is_some();
            kernel.place(&self.kernel_obstacles(), &settings, &objects, &outputs, may_change);
        }
        for input in objects.into_iter().flatten() {
            builder = builder.input(input, self.framing.framing());
        }
        for (output, object) in self.outputs.iter().zip(outputs.into_iter().flatten()) {
            builder = builder.output_with(object, self.output_options(output));
        }
        let mut stream = builder.lending(self.lending.clone()).finish_outputs().build();
        self.add_output_handlers(&mut stream)?;
        Ok(OpenedStream { stream, kernel })
    }

    /// Number of addresses that listen for connections.
    pub fn listeners(&self) -> usize {
        self.inputs.iter().chain(&self.outputs).filter(|address| address.listens()).count()
    }

    /// Adds the handlers of single outputs to a stream that has not started.
    fn add_output_handlers(&self, stream: &mut Stream) -> Result<(), SpecError> {
        let ports: Vec<Port> = stream.status().outputs.iter().map(|output| output.port).collect();
        for OutputHandlerSpec { output, below, handler } in &self.output_handlers {
            let handler = handler.handler()?;
            let Some(port) = output.checked_sub(1).and_then(|place| ports.get(place)) else { continue };
            match below {
                Some(below) => stream.add_output_handler_below(*port, *below, handler),
                None => stream.add_output_handler(*port, handler),
            };
        }
        Ok(())
    }

    /// Options of an output. A file accepts no bytes while the pool writes to it, so more bytes must be able
    /// to wait.
    fn output_options(&self, output: &Address) -> OutputOptions {
        let default = OutputOptions { when_full: self.when_full.0, ..OutputOptions::default() };
        match self.when_full.0 {
            WhenFull::Block => default,
            _ if output.is_file() => OutputOptions { waiting_bytes: FILE_WAITING_BYTES, ..default },
            _ => default,
        }
    }

    /// Opens the inputs that do not listen. Each object is at the index of its address.
    fn open_inputs(
        &self,
        on_wait: &mut impl FnMut(String),
    ) -> Result<Vec<Option<Object>>, StreamConfigError> {
        let open = |input: &Address| {
            if input.listens() {
                return Ok(None);
            }
            if input.is_fifo() {
                on_wait(format!("a writer of {input}"));
            }
            let object = input.open_input()?;
            let has_object = self.handlers.iter().any(|handler| handler.object_file().is_some());
            if has_object || self.handler_folder.is_some() {
                // Set before a datagram can wait in the socket: the kernel needs single datagrams.
                input.take_single_datagrams(&object)?;
            }
            Ok(Some(object))
        };
        self.inputs.iter().map(open).collect()
    }

    /// Opens the outputs that do not listen. Each object is at the index of its address. Files come last: a
    /// failed connection must not create or overwrite a file.
    fn open_outputs(
        &self,
        on_wait: &mut impl FnMut(String),
    ) -> Result<Vec<Option<Object>>, StreamConfigError> {
        let mut opened: Vec<Option<Object>> = self.outputs.iter().map(|_| None).collect();
        for are_files in [false, true] {
            for (output, opened) in self.outputs.iter().zip(&mut opened) {
                let is_fifo = output.is_fifo();
                if !output.listens() && (output.is_file() && !is_fifo) == are_files {
                    if is_fifo {
                        on_wait(format!("a reader of {output}"));
                    }
                    *opened = Some(self.open_output(output)?);
                }
            }
        }
        Ok(opened)
    }

    fn open_output(&self, output: &Address) -> Result<Object, StreamConfigError> {
        match self.inputs.iter().find(|input| input.is_same_file(output)) {
            Some(input) => {
                Err(StreamConfigError::SameFile(Box::new(output.clone()), Box::new(input.clone())))
            }
            None => Ok(output.open_output()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: A handler without its required framing is refused, and the error names the framing to add.
    #[test]
    fn a_handler_without_its_framing_is_refused_with_the_cure() {
        let checked = |framing: &str, handler: &str, input: &str| {
            let config = StreamConfig {
                inputs: vec![input.parse().unwrap()],
                outputs: vec!["-".parse().unwrap()],
                framing: framing.parse().unwrap(),
                handlers: vec![handler.parse().unwrap()],
                ..StreamConfig::default()
            };
            config.check().map_err(|error| error.to_string())
        };
        for framing in ["whole", "line", "fixed:1000", "rtp"] {
            let error = checked(framing, "ts:programme=2", "file:a.ts").unwrap_err();
            assert_eq!(error, "handler ts needs records of its own format; add --framing ts");
        }
        assert!(checked("whole", "unprefix", "-").unwrap_err().ends_with("add --framing length32"));
        for (framing, handler, input) in [
            ("ts", "ts:programme=2", "-"),
            ("fixed:1316", "ts:pids=0", "-"),
            ("length32", "unprefix", "-"),
            ("whole", "ts:pids=0", "udp://@:9"),
            ("whole", "meter", "-"),
        ] {
            assert_eq!(checked(framing, handler, input), Ok(()));
        }
    }

    /// Promise: Records too large for a datagram are refused before anything is opened.
    #[test]
    fn what_is_too_long_for_a_datagram_is_refused_before_anything_is_opened() {
        let checked = |framing: &str, pattern: &str, outputs| {
            StreamConfig {
                inputs: vec!["-".parse().unwrap()],
                outputs: vec!["udp://127.0.0.1:9".parse().unwrap(); outputs],
                framing: framing.parse().unwrap(),
                pattern: pattern.parse().unwrap(),
                ..StreamConfig::default()
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
                matches!(refused, Err(StreamConfigError::TooLongForDatagrams(_, 65_508))),
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

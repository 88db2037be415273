//! Options of one stream: `wirepath relay --in … --out …`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use wirepath_engine::Class;
use wirepath_relay::{
    Address, Configuration, FramingSpec, HandlerSpec, OrderSpec, OutputHandlerSpec, PatternSpec, RateSpec,
    StreamConfig, StreamPlan, WhenFullSpec,
};

use super::without_address;

const NAME: &str = "command line";

/// Options of one stream.
#[derive(Args)]
pub(super) struct StreamOptions {
    /// Input address; may be repeated
    #[arg(long = "in", value_name = "ADDRESS", value_parser = without_address(Address::to_read), requires = "outputs")]
    inputs: Vec<Address>,

    /// Output address; may be repeated
    #[arg(long = "out", value_name = "ADDRESS", value_parser = without_address(Address::to_write), requires = "inputs")]
    outputs: Vec<Address>,

    /// Division of inputs into records: whole, fixed:BYTES, ts, rtp, line, length32. With whole, each
    /// datagram is one record
    #[arg(long, value_name = "FRAMING", default_value = "whole", requires = "inputs")]
    framing: FramingSpec,

    /// Order of inputs: arrival, roundrobin, random[:SEED], tag:OFFSET:BYTES[:WINDOW[:SIZE]],
    /// join[:WINDOW[:SIZE]], join-key:OFFSET:BYTES[:WINDOW[:SIZE]],
    /// shares:THRESHOLD[:WINDOW[:SIZE]]
    #[arg(long, value_name = "ORDER", default_value = "arrival", requires = "inputs")]
    order: OrderSpec,

    /// Distribution of records over outputs: mirror, stripe, stripe:BYTES, random[:SEED], capacity,
    /// shares:THRESHOLD
    #[arg(long, value_name = "PATTERN", default_value = "mirror", requires = "inputs")]
    pattern: PatternSpec,

    /// Handlers of records, in the given order: crc32c, meter, match:TEXT, begins:TEXT, ts:pids=PID,…,
    /// ts:programme=NUMBER, seal:KEYFILE, open:KEYFILE, prefix, unprefix, touch[:MASK], bpf:FILE (in the
    /// kernel if possible)
    #[arg(long = "handler", value_name = "HANDLER", requires = "inputs")]
    handlers: Vec<HandlerSpec>,

    /// Handlers of single outputs, after those of --handler: NUMBER:HANDLER, such as 2:begins:ERROR for the
    /// second --out, or 2:trust<50:begins:ERROR while the trust in its peer is below 50; may be repeated
    #[arg(long = "output-handler", value_name = "NUMBER:HANDLER", requires = "inputs")]
    output_handlers: Vec<OutputHandlerSpec>,

    /// Folder of eBPF objects that clients of --metrics may set as handlers while the stream runs: bpf:NAME
    #[arg(long, value_name = "DIR", requires_all = ["inputs", "metrics"])]
    handler_folder: Option<PathBuf>,

    /// Action when an output falls behind: block, drop-newest, drop-oldest, disconnect
    #[arg(long, value_name = "CHOICE", default_value = "block", requires = "inputs")]
    when_full: WhenFullSpec,

    /// Class of the stream, from the configuration file; without a file, only a name for tables and metrics
    #[arg(long, value_name = "NAME", requires = "inputs")]
    class: Option<String>,

    /// Limit of the reading rate: 100Mbit/s, 5Mb/s, 12.5MB/s, 12MiB/s
    #[arg(long, value_name = "RATE", requires = "inputs")]
    rate: Option<RateSpec>,
}

impl StreamOptions {
    /// Adds the stream to the configuration, if a stream is given.
    pub(super) fn add_to(self, configuration: &mut Configuration) -> Result<()> {
        if self.inputs.is_empty() {
            return Ok(());
        }
        let class = self.class.map_or(Ok(0), |name| class_index(name, configuration));
        let config = StreamConfig {
            inputs: self.inputs,
            outputs: self.outputs,
            framing: self.framing,
            order: self.order,
            pattern: self.pattern,
            handlers: self.handlers,
            output_handlers: self.output_handlers,
            handler_folder: self.handler_folder,
            when_full: self.when_full,
            lending: configuration.lending.clone(),
        };
        config.check()?;
        let rate = self.rate.map(|rate| rate.rate(None));
        let plan = StreamPlan { name: NAME.to_owned(), class: class?, rate, deadline: None, config };
        configuration.add(plan).map_err(anyhow::Error::msg)
    }
}

/// Index of the class with this name. Without a configuration file, classes are only names.
fn class_index(name: String, configuration: &mut Configuration) -> Result<usize> {
    if configuration.streams.is_empty() && configuration.sharing.classes.is_empty() {
        configuration.sharing.classes.push(Class { name, priority: 0, share: 1, rate: None });
        return Ok(0);
    }
    match configuration.class(&name) {
        Ok(class) => Ok(class),
        Err(what) => bail!("--class: {what}"),
    }
}

//! `wirepath relay --in … --out …`: one stream, from inputs to outputs.

use anyhow::{Result, bail};
use clap::Args;
use wirepath_engine::Class;
use wirepath_relay::{
    Address, Configuration, FramingSpec, HandlerSpec, OrderSpec, PatternSpec, RateSpec, StreamPlan,
    WhenFullSpec, Wiring,
};

use super::said_once;

/// The name of a stream that is given on the command line.
const NAME: &str = "command line";

/// Inputs, outputs and what is between them.
#[derive(Args)]
pub(super) struct Wires {
    /// Where bytes come from; may be given more than once
    #[arg(long = "in", value_name = "ADDRESS", value_parser = said_once(Address::to_read), requires = "outputs")]
    inputs: Vec<Address>,

    /// Where they go; may be given more than once
    #[arg(long = "out", value_name = "ADDRESS", value_parser = said_once(Address::to_write), requires = "inputs")]
    outputs: Vec<Address>,

    /// How inputs are divided into records: whole, fixed:BYTES, ts, rtp, line, length32. With whole, a datagram is a record as it is
    #[arg(long, value_name = "FRAMING", default_value = "whole", requires = "inputs")]
    framing: FramingSpec,

    /// The order of inputs: arrival, roundrobin, random[:SEED], tag:OFFSET:BYTES[:WINDOW[:SIZE]], shares[:WINDOW[:SIZE]]
    #[arg(long, value_name = "ORDER", default_value = "arrival", requires = "inputs")]
    order: OrderSpec,

    /// How records are spread over outputs: mirror, stripe, stripe:BYTES, random[:SEED], capacity, shares:THRESHOLD
    #[arg(long, value_name = "PATTERN", default_value = "mirror", requires = "inputs")]
    pattern: PatternSpec,

    /// What sees the records on their way, in this order: crc32c, meter, match:TEXT, ts:pids=PID,…, ts:programme=NUMBER,
    /// seal:KEYFILE, open:KEYFILE, prefix, unprefix, touch[:MASK]
    #[arg(long = "handler", value_name = "HANDLER", requires = "inputs")]
    handlers: Vec<HandlerSpec>,

    /// When an output takes nothing: block, drop-newest, drop-oldest, disconnect
    #[arg(long, value_name = "CHOICE", default_value = "block", requires = "inputs")]
    when_full: WhenFullSpec,

    /// The stream's class: one of the configuration file, or without one a name to show
    #[arg(long, value_name = "NAME", requires = "inputs")]
    class: Option<String>,

    /// What it may read: 100Mbit/s, 12.5MB/s, 12MiB/s
    #[arg(long, value_name = "RATE", requires = "inputs")]
    rate: Option<RateSpec>,
}

impl Wires {
    /// Adds the stream, if one is given, to those of the configuration.
    pub(super) fn add_to(self, configuration: &mut Configuration) -> Result<()> {
        if self.inputs.is_empty() {
            return Ok(());
        }
        let class = self.class.map_or(Ok(0), |name| class(name, configuration));
        let wiring = Wiring {
            inputs: self.inputs,
            outputs: self.outputs,
            framing: self.framing,
            order: self.order,
            pattern: self.pattern,
            handlers: self.handlers,
            when_full: self.when_full,
        };
        wiring.check()?;
        let rate = self.rate.map(|rate| rate.rate(None));
        let plan = StreamPlan { name: NAME.to_owned(), class: class?, rate, deadline: None, wiring };
        configuration.add(plan).map_err(anyhow::Error::msg)
    }
}

/// The place of a class. Where there are no streams but this one, classes are only names.
fn class(name: String, configuration: &mut Configuration) -> Result<usize> {
    if configuration.streams.is_empty() && configuration.sharing.classes.is_empty() {
        configuration.sharing.classes.push(Class { name, priority: 0, share: 1, rate: None });
        return Ok(0);
    }
    match configuration.class(&name) {
        Ok(class) => Ok(class),
        Err(what) => bail!("--class: {what}"),
    }
}

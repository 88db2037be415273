//! Stream service: an engine with one thread, and its streams.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use wirepath_engine::{Engine, EngineOptions};
use wirepath_streams::{
    Framing, InputOrder, Late, Object, OutputPattern, RunningStream, Stream, StreamBuilder, StreamOptions,
};

use super::{Ends, Prepared, datagrams, handlers};
use crate::relay::tagged::tag_of;
use crate::relay::task::{DATAGRAM, Shape, Task};
use crate::subject::OrderKind;

/// Limit of records that wait for records with smaller tags: several reads of each input.
const WINDOW: usize = 16 * 1024;

pub(super) fn prepare(task: &Task, ends: Ends) -> io::Result<Prepared> {
    let streams = streams(task, ends)?;
    let engine = Engine::start(EngineOptions::default())?;
    let start = |engine: &Engine, streams: Vec<Stream>| -> Vec<RunningStream> {
        streams.into_iter().map(|stream| stream.start(engine, StreamOptions::default())).collect()
    };
    // A stream from a file would begin before the go message; data from the network only arrives after it.
    if matches!(task.shape, Shape::FileToSocket(_)) {
        return Ok(Box::new(move || end(start(&engine, streams))));
    }
    let running = start(&engine, streams);
    if let Some(last) = running.last() {
        last.status(); // returns when the engine thread has accepted all streams
    }
    Ok(Box::new(move || {
        let _engine = engine;
        end(running)
    }))
}

/// Waits for the end of all streams.
fn end(running: Vec<RunningStream>) -> io::Result<()> {
    running.iter().try_for_each(|stream| stream.wait().result).map_err(io::Error::other)
}

fn streams(task: &Task, ends: Ends) -> io::Result<Vec<Stream>> {
    let Ends { inputs, outputs, datagrams: socket } = ends;
    match &task.shape {
        Shape::FileToSocket(path) => outputs
            .into_iter()
            .map(|output| {
                let file = Object::file("file", Arc::new(File::open(path)?), 0);
                Ok(builder(task).input(file, framing(task)).output(connection(output)?).build())
            })
            .collect(),
        Shape::SocketToFile(paths) => {
            let links = inputs.into_iter().zip(paths);
            links
                .map(|(input, path)| {
                    let file = Arc::new(File::options().write(true).open(path)?);
                    let file = Object::file("file", file, 0);
                    Ok(builder(task).input(connection(input)?, framing(task)).output(file).build())
                })
                .collect()
        }
        Shape::SocketToSocket => {
            let mut outputs = outputs.into_iter();
            let stream = |input| match outputs.next() {
                Some(output) => many(task, vec![input], vec![output]),
                None => idle(task, input),
            };
            inputs.into_iter().map(stream).collect()
        }
        Shape::Merge | Shape::Stripe | Shape::Random | Shape::Mirror => {
            Ok(vec![many(task, inputs, outputs)?])
        }
        Shape::Files(..) | Shape::FileProxy(_) => Ok(Vec::new()), // a separate stream for each answer
        Shape::Datagrams(receivers) => {
            let socket = socket.ok_or(io::ErrorKind::InvalidInput)?;
            Ok(vec![mirror_of_datagrams(task, socket.into(), receivers)?])
        }
    }
}

/// Framing in records of the block size, if there is a block.
fn framing(task: &Task) -> Framing {
    if task.block_bytes > 1 { Framing::Fixed(task.block_bytes) } else { Framing::Whole }
}

/// Stream that receives no data. It has no second descriptor, since there may be too few for ten thousand
/// streams.
fn idle(task: &Task, input: TcpStream) -> io::Result<Stream> {
    let (nowhere, _) = Object::collect("nowhere", 1);
    Ok(builder(task).input(connection(input)?, Framing::Whole).output(nowhere).build())
}

/// Single stream of all inputs and outputs.
fn many(task: &Task, inputs: Vec<TcpStream>, outputs: Vec<TcpStream>) -> io::Result<Stream> {
    let mut builder = builder(task);
    for input in inputs {
        builder = builder.input(connection(input)?, framing(task));
    }
    for output in outputs {
        builder = builder.output(connection(output)?);
    }
    Ok(builder.build())
}

fn mirror_of_datagrams(task: &Task, socket: OwnedFd, receivers: &[SocketAddr]) -> io::Result<Stream> {
    let input = Object::datagrams("source", socket, None, None)?;
    let mut builder = builder(task).input(input, Framing::Whole);
    for output in datagrams::connected(receivers)? {
        builder = builder.output(Object::datagrams("receiver", output.into(), None, Some(DATAGRAM))?);
    }
    Ok(builder.build())
}

fn builder(task: &Task) -> StreamBuilder {
    let pattern = match task.shape {
        Shape::Mirror | Shape::Datagrams(_) => OutputPattern::Mirror,
        Shape::Random => OutputPattern::Random { seed: 1 },
        _ => OutputPattern::Stripe,
    };
    let builder = ordered(task).pattern(pattern).finish_outputs();
    match handlers::handler(task) {
        Some(handler) => builder.handler(handler),
        None => builder,
    }
}

/// Stream builder with the order of inputs.
fn ordered(task: &Task) -> StreamBuilder {
    let builder = StreamBuilder::default();
    match task.order {
        None | Some(OrderKind::RoundRobin) => builder.order(InputOrder::RoundRobin),
        Some(OrderKind::Random) => builder.order(InputOrder::Random { seed: 1 }),
        Some(OrderKind::Arrival) => builder.order(InputOrder::Arrival),
        Some(OrderKind::Tag) => builder.order_by_tag(WINDOW, WINDOW * task.block_bytes, Late::Drop, tag_of),
    }
}

fn connection(connection: TcpStream) -> io::Result<Object> {
    Object::stream("connection", connection.into())
}

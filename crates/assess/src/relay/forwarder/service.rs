//! The stream service: an engine of one thread, and streams on it.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use wirepath_engine::{Engine, EngineOptions};
use wirepath_streams::handlers::Touch;
use wirepath_streams::{
    Framing, Handler, InputOrder, Object, OutputPattern, RunningStream, Stream, StreamBuilder, StreamOptions,
};

use super::{Ends, Prepared, datagrams};
use crate::relay::task::{DATAGRAM, MASK, Shape, Task};

pub(super) fn prepare(task: &Task, ends: Ends) -> io::Result<Prepared> {
    let streams = streams(task, ends)?;
    let engine = Engine::start(EngineOptions::default())?;
    let start = |engine: &Engine, streams: Vec<Stream>| -> Vec<RunningStream> {
        streams.into_iter().map(|stream| stream.start(engine, StreamOptions::default())).collect()
    };
    // Files are there before anybody says go; what comes over the network waits for that.
    if matches!(task.shape, Shape::FileToSocket(_)) {
        return Ok(Box::new(move || end(start(&engine, streams))));
    }
    let running = start(&engine, streams);
    if let Some(last) = running.last() {
        last.status(); // the engine thread has taken all of them
    }
    Ok(Box::new(move || {
        let _engine = engine;
        end(running)
    }))
}

/// Waits for all of them.
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
                Ok(builder(task).input(file, Framing::Whole).output(connection(output)?).build())
            })
            .collect(),
        Shape::SocketToFile(paths) => {
            let links = inputs.into_iter().zip(paths);
            links
                .map(|(input, path)| {
                    let file = Arc::new(File::options().write(true).open(path)?);
                    let file = Object::file("file", file, 0);
                    Ok(builder(task).input(connection(input)?, Framing::Whole).output(file).build())
                })
                .collect()
        }
        Shape::SocketToSocket => {
            let mut outputs = outputs.into_iter();
            let stream = |input| match outputs.next() {
                Some(output) => many(task, vec![input], Framing::Whole, vec![output]),
                None => idle(task, input),
            };
            inputs.into_iter().map(stream).collect()
        }
        Shape::Merge | Shape::Stripe | Shape::Random => {
            Ok(vec![many(task, inputs, Framing::Fixed(task.block_bytes), outputs)?])
        }
        Shape::Mirror => Ok(vec![many(task, inputs, Framing::Whole, outputs)?]),
        Shape::Datagrams(receivers) => {
            let socket = socket.ok_or(io::ErrorKind::InvalidInput)?;
            Ok(vec![mirror_of_datagrams(task, socket.into(), receivers)?])
        }
    }
}

/// A stream that nothing is to come to. It has no second descriptor, of which there may be too few for ten
/// thousand.
fn idle(task: &Task, input: TcpStream) -> io::Result<Stream> {
    let (nowhere, _) = Object::collect("nowhere", 1);
    Ok(builder(task).input(connection(input)?, Framing::Whole).output(nowhere).build())
}

/// One stream of all inputs and outputs.
fn many(
    task: &Task,
    inputs: Vec<TcpStream>,
    framing: Framing,
    outputs: Vec<TcpStream>,
) -> io::Result<Stream> {
    let mut builder = builder(task);
    let mut framing = Some(framing);
    for input in inputs {
        let framing = match task.shape {
            Shape::Merge => Framing::Fixed(task.block_bytes),
            _ => framing.take().unwrap_or(Framing::Whole),
        };
        builder = builder.input(connection(input)?, framing);
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
    let builder = StreamBuilder::default().order(InputOrder::RoundRobin).pattern(pattern).finish_outputs();
    match task.touch {
        true => builder.handler(Handler::Modify(Box::new(Touch::new(MASK)))),
        false => builder,
    }
}

fn connection(connection: TcpStream) -> io::Result<Object> {
    Object::stream("connection", connection.into())
}

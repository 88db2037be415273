//! Streams that fail: bytes taken before leave first, and all bytes are accounted for.

use std::fs::File;

use super::*;

/// Whole packets of a transport stream, and the beginning of another.
const PACKETS: usize = 1300;
const CUT: usize = 28;

fn cut() -> Vec<u8> {
    let packet = |number: usize| {
        let mut packet = [number as u8; 188];
        packet[0] = 0x47;
        packet
    };
    let mut bytes: Vec<u8> = (0..=PACKETS).flat_map(packet).collect();
    bytes.truncate(PACKETS * 188 + CUT);
    bytes
}

fn framed(input: Object) -> StreamBuilder {
    StreamBuilder::default().pattern(OutputPattern::Mirror).input(input, Framing::transport_stream())
}

/// Promise: Records read before an input or handler failed are still sent, in order.
///
/// Over a connection with small buffers, and to a file; on an engine and on the caller's thread.
#[test]
fn whole_records_before_one_that_is_cut_still_go() {
    let engine = engine();
    for is_on_engine in [true, false] {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let (near, mut far) = narrow_connection();
        let reading = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            far.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let mut stream = framed(memory(&cut()))
            .output(Object::stream("to", near.into()).unwrap())
            .output(Object::file("file", Arc::clone(&file), 0))
            .build();
        let (result, status) = if is_on_engine {
            let end = stream.start(&engine, crate::StreamOptions::default()).wait_for(PATIENCE);
            let end = end.expect("it does not end");
            (end.result, end.status)
        } else {
            let result = stream.run();
            let status = stream.status();
            drop(stream);
            (result, status)
        };
        let error = result.unwrap_err().to_string();
        assert!(error.contains("ends within a record, after 28 of its bytes"), "{error}");
        // The beginning of the last packet may have been sent before its end was found missing.
        let bytes = reading.join().unwrap();
        assert!(cut().starts_with(&bytes) && bytes.len() >= PACKETS * 188, "{} bytes came", bytes.len());
        assert_eq!(file.metadata().unwrap().len(), bytes.len() as u64);
        assert!(status.outputs.iter().all(|output| output.bytes == bytes.len() as u64), "{status:?}");
        assert_eq!(status.bytes_in, bytes.len() as u64 + status.bytes_pending, "{status:?}");
    }
}

/// Promise: After a failure, outputs without progress delay the end by at most a minute.
#[test]
fn outputs_that_take_nothing_hold_up_the_end_for_no_longer_than_a_minute() {
    let mut builder = framed(memory(&cut()));
    let mut far_ends = Vec::new();
    for _ in 0..5 {
        let (near, far) = narrow_connection();
        rustix::net::sockopt::set_socket_send_buffer_size(&near, 4096).unwrap();
        builder = builder.output(Object::stream("to", near.into()).unwrap());
        far_ends.push(far);
    }
    let mut stream = builder.build();
    let mut now_us = 1;
    for _ in 0..1000 {
        match stream.act(u64::MAX, now_us).0 {
            Acted::Wait if stream.look_again_us().is_some() => now_us += 20_000_000,
            Acted::Wait | Acted::More => (0..5).for_each(|port| stream.note_ready(Port(port))),
            Acted::Ended(ended) => {
                assert!(ended.unwrap_err().to_string().contains("ends within a record"));
                assert!((60_000_000..90_000_000).contains(&now_us), "after {now_us} us");
                return;
            }
            Acted::Deliver => panic!("it ends well"),
        }
    }
    panic!("it does not end");
}

/// Promise: A stopped stream has written exactly what its status says.
///
/// At any time of stopping: bytes that are being written then are written and counted before the end is
/// reported.
#[test]
fn a_stream_that_is_stopped_has_written_what_it_says() {
    let engine = engine();
    let zeros = File::open("/dev/zero").unwrap();
    for _ in 0..20 {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let stream = StreamBuilder::default()
            .input(Object::stream("zeros", zeros.try_clone().unwrap().into()).unwrap(), Framing::Fixed(1000))
            .output(Object::file("file", Arc::clone(&file), 0))
            .build();
        let running = stream.start(&engine, crate::StreamOptions::default());
        while running.progress().bytes_out() == 0 {
            std::thread::yield_now();
        }
        running.stop();
        let end = running.wait_for(PATIENCE).expect("it does not end");
        assert_eq!(end.result, Err(StreamError::Stopped));
        assert_eq!(end.status.outputs[0].bytes, file.metadata().unwrap().len());
    }
}

/// Handler that reads, selects or rewrites, and fails at the fourth record.
pub(super) struct Failing(pub(super) u32);

impl Failing {
    fn next(&mut self) -> Result<(), crate::HandlerError> {
        self.0 += 1;
        if self.0 == 4 { Err(crate::HandlerError::Failed("on purpose".to_owned())) } else { Ok(()) }
    }
}

impl crate::Common for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn reach(&self) -> crate::Reach {
        crate::Reach::Pieces
    }
}

impl crate::Read for Failing {
    fn read(&mut self, _: crate::Piece<'_>) -> Result<crate::Verdict, crate::HandlerError> {
        self.next().map(|()| crate::Verdict::Pass)
    }
}

impl crate::Select for Failing {
    fn select(
        &mut self,
        piece: crate::Piece<'_>,
        frame: &mut crate::Frame<'_>,
    ) -> Result<(), crate::HandlerError> {
        frame.keep(0..piece.bytes.len());
        self.next()
    }
}

impl crate::Rewrite for Failing {
    fn room(&self, length: usize) -> usize {
        length
    }

    fn rewrite(
        &mut self,
        piece: crate::Piece<'_>,
        out: &mut [u8],
    ) -> Result<Option<usize>, crate::HandlerError> {
        self.next()?;
        out[..piece.bytes.len()].copy_from_slice(piece.bytes);
        Ok(Some(piece.bytes.len()))
    }
}

/// Promise: Records read before an input or handler failed are still sent, in order.
#[test]
fn what_comes_before_a_record_at_which_a_handler_fails_still_goes() {
    let handlers = [
        Handler::Read(Box::new(Failing(0))),
        Handler::Select(Box::new(Failing(0))),
        Handler::Rewrite(Box::new(Failing(0))),
    ];
    for handler in handlers {
        let (object, collected) = Object::collect("out", LIMIT);
        let mut stream = StreamBuilder::default()
            .input(memory(b"0123456789abcdef"), Framing::Fixed(2))
            .handler(handler)
            .output(object)
            .build();
        let error = stream.run().unwrap_err().to_string();
        assert!(error.contains("failing: on purpose"), "{error}");
        assert_eq!(collected.bytes(), b"012345");
        let status = stream.status();
        assert_eq!((status.bytes_in, status.bytes_out, status.bytes_dropped), (16, 6, 10), "{status:?}");
    }
}

/// Promise: Records read before an input or handler failed are still sent, in order.
///
/// However much was read before, from one input or from several.
#[test]
fn nothing_behind_a_record_at_which_a_handler_fails_goes() {
    let tag = |record: &[u8]| record.first().map(|first| u64::from(*first));
    let builders = [
        StreamBuilder::default(),
        StreamBuilder::default().order(crate::InputOrder::RoundRobin),
        StreamBuilder::default().order_by_tag(100, LIMIT, crate::Late::Pass, tag),
    ];
    for (place, mut builder) in builders.into_iter().enumerate() {
        let (object, collected) = Object::collect("out", LIMIT);
        for byte in 0..=2 {
            builder = builder.input(memory(&vec![byte; 300_000]), Framing::Fixed(2));
        }
        let mut stream = builder.handler(Handler::Rewrite(Box::new(Failing(0)))).output(object).build();
        let error = stream.run().unwrap_err().to_string();
        assert!(error.contains("failing: on purpose"), "{error}");
        let bytes = collected.bytes();
        assert_eq!(bytes.len(), 6, "order {place}");
    }
}

//! The sent streams of a playback: the output and the numbers of each.

use wirepath_datapath::interleaved::FrameTrain;
use wirepath_datapath::{
    Headers, MappedFile, PacketMaker, SendError, SendOutcome, StoredTrains, Support, Train,
};

use crate::numbering::{Numbering, Numbers};
use crate::output::{InterleavedOutput, Output, UdpOutput};
use crate::replay::ReplayStream;
use crate::request::{Position, StreamPosition};
use crate::source::{Departure, SegmentClock, numbers};
use crate::thread_state::ThreadState;

/// Sent streams. The first is stored in place, so that a playback of one stream allocates nothing for others.
pub(crate) struct Streams {
    first: Stream,
    output: Output,
    others: Vec<OtherStream>,
}

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Its number in the source.
    pub(crate) number: u8,
    pub(crate) numbering: Numbering,
    /// State of header extensions of ONVIF replay, if packets have them.
    pub(crate) replay: Option<Box<ReplayStream>>,
}

/// A stream that was set up after the first, over the same lower transport.
pub(crate) struct OtherStream {
    pub(crate) stream: Stream,
    pub(crate) output: OtherOutput,
}

pub(crate) enum OtherOutput {
    /// A socket of its own.
    Udp(UdpOutput),
    /// A channel of the connection to which the first stream is sent.
    Channel(u8, Option<Box<PacketMaker>>),
}

impl Streams {
    pub(crate) fn new(first: Stream, output: Output) -> Streams {
        Streams { first, output, others: Vec::new() }
    }

    /// Adds a stream, or replaces one of the same number except the first.
    pub(crate) fn add(&mut self, other: OtherStream) {
        self.others.retain(|known| known.stream.number != other.stream.number);
        self.others.push(other);
    }

    /// Index of the stream of this number, if it is sent.
    #[inline]
    pub(crate) fn index(&self, number: u8) -> usize {
        if self.others.is_empty() || number == self.first.number {
            return 0;
        }
        self.others.iter().position(|other| other.stream.number == number).map_or(0, |index| index + 1)
    }

    /// The streams, in the order in which they were set up.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        [&self.first].into_iter().chain(self.others.iter().map(|other| &other.stream))
    }

    /// Numbers of the stream at an index.
    #[inline]
    pub(crate) fn numbering(&mut self, index: usize) -> &mut Numbering {
        &mut self.stream_mut(index).numbering
    }

    /// Headers of the next packet of the stream at an index; they are made if the file has none.
    #[inline]
    pub(crate) fn headers(&self, index: usize, file: Option<&MappedFile>) -> Headers {
        let headers = self.stream(index).numbering.headers;
        file.map_or(headers, |file| headers.in_file(file))
    }

    /// Notes a seek for all streams: see [`Numbering::seek`].
    pub(crate) fn seek(&mut self, shift_us: i64) {
        self.first.numbering.seek(shift_us);
        self.others.iter_mut().for_each(|other| other.stream.numbering.seek(shift_us));
    }

    /// Notes for all streams that the next packet does not follow the last one in the recording.
    pub(crate) fn leave(&mut self) {
        let others = self.others.iter_mut().map(|other| &mut other.stream);
        let replays = others.chain([&mut self.first]).filter_map(|stream| stream.replay.as_mut());
        replays.for_each(|replay| replay.leave());
    }

    /// Returns whether packets of the stream at an index have header extensions.
    #[inline]
    pub(crate) fn is_extended(&self, index: usize) -> bool {
        self.stream(index).replay.is_some()
    }

    /// Sets the header extensions of a departure of the stream at an index.
    pub(crate) fn extend(
        &mut self,
        index: usize,
        departure: &Departure,
        clock: Option<&SegmentClock>,
        cseq: u8,
    ) {
        let other = index.checked_sub(1).and_then(|other| self.others.get_mut(other));
        let (stream, maker) = match (other, &mut self.output) {
            (None, Output::Udp(output)) => (&mut self.first, output.maker()),
            (None, Output::Interleaved(output)) => (&mut self.first, output.maker()),
            (Some(OtherStream { stream, output: OtherOutput::Udp(output) }), _) => (stream, output.maker()),
            (Some(OtherStream { stream, output: OtherOutput::Channel(_, maker) }), _) => {
                (stream, maker.as_deref_mut())
            }
        };
        let (Some(maker), Some(replay)) = (maker, &mut stream.replay) else { return };
        let extensions = clock.map(|clock| replay.extensions(&stream.numbering, departure, clock, cseq));
        maker.set_extensions(extensions);
    }

    /// Notes that a packet of the stream at an index was sent.
    pub(crate) fn note_extended(&mut self, index: usize) {
        if let Some(replay) = &mut self.stream_mut(index).replay {
            replay.note_sent();
        }
    }

    /// Notes for all streams that packets are skipped: see [`Numbering::skip`].
    pub(crate) fn skip(&mut self) {
        self.first.numbering.skip();
        self.others.iter_mut().for_each(|other| other.stream.numbering.skip());
    }

    /// First packets of all streams if the playback begins at a departure. `stored` returns the stored
    /// numbers of a stream's next packet, if known.
    pub(crate) fn position(&self, departure: &Departure, stored: impl Fn(u8) -> Option<Numbers>) -> Position {
        let numbers = numbers(departure);
        let streams = self.iter().map(|Stream { number, numbering, .. }| {
            let sequence = numbering.next_sequence(stored(*number));
            let timestamp = numbering.timestamp_at(departure.at_us, numbers);
            StreamPosition { stream: *number, sequence, timestamp }
        });
        Position { at_us: departure.at_us, streams: streams.collect() }
    }

    /// Sends the first packets of trains of the stream at an index, or queues all of the first one under `token`.
    #[inline]
    pub(crate) fn send(
        &mut self,
        index: usize,
        trains: StoredTrains<'_>,
        thread: &mut ThreadState,
        token: u64,
    ) -> Result<SendOutcome<u32>, SendError> {
        let Some(other) = index.checked_sub(1) else {
            return self.output.send(trains, thread, token);
        };
        match (&mut self.others[other].output, &mut self.output) {
            (OtherOutput::Udp(output), _) => output.send(trains, thread, token),
            (OtherOutput::Channel(channel, maker), Output::Interleaved(output)) => {
                let channel = (*channel, maker.as_deref_mut());
                output.send_in(channel, trains, thread, token)
            }
            (OtherOutput::Channel(..), Output::Udp(_)) => {
                unreachable!("streams of a playback have one lower transport")
            }
        }
    }

    /// Handles the result of a queued train of the stream at an index: the number of bytes sent. Returns the number
    /// of packets sent.
    pub(crate) fn finish(
        &mut self,
        index: usize,
        queued: StoredTrains<'_>,
        result: Result<u32, SendError>,
        thread: &mut ThreadState,
        token: u64,
    ) -> Result<u32, SendError> {
        if let Some(output) = self.udp(index) {
            result?;
            output.note_lent(&thread.counters);
            return Ok(queued.trains.iter().map(Train::packets).sum());
        }
        let channel = match index.checked_sub(1).map(|other| &self.others[other].output) {
            Some(OtherOutput::Channel(channel, _)) => Some(*channel),
            _ => None,
        };
        match &mut self.output {
            Output::Interleaved(output) => {
                let channel = channel.unwrap_or(output.channel());
                let Some(frames) = FrameTrain::first_of(queued, channel) else { return Ok(0) };
                output.finish(&frames, result, thread, token)
            }
            Output::Udp(_) => unreachable!("streams of a playback have one lower transport"),
        }
    }

    /// Returns whether this error only loses packets of the stream at an index, so that later ones may
    /// arrive.
    pub(crate) fn loses(&mut self, index: usize, error: &SendError) -> bool {
        let is_down = matches!(error, SendError::NetworkDown { .. });
        is_down || self.udp(index).is_some_and(|output| output.loses(error))
    }

    /// Steps down to another path if the route does not support the last one.
    pub(crate) fn step_down(
        &mut self,
        index: usize,
        error: SendError,
        support: &Support,
    ) -> Result<(), SendError> {
        match self.udp(index) {
            Some(output) => output.step_down(error, support),
            None => Err(error),
        }
    }

    /// Notes that the kernel copied a queued train. The kernel does not report of which stream, but all
    /// streams go to the same host.
    pub(crate) fn note_copied(&mut self) {
        if let Some(connection) = self.connection_mut() {
            return connection.note_copied();
        }
        for index in 0..=self.others.len() {
            self.udp(index).into_iter().for_each(UdpOutput::note_copied);
        }
    }

    /// The connection, if the streams are sent to a connection.
    pub(crate) fn connection(&self) -> Option<&InterleavedOutput> {
        match &self.output {
            Output::Udp(_) => None,
            Output::Interleaved(output) => Some(output),
        }
    }

    pub(crate) fn connection_mut(&mut self) -> Option<&mut InterleavedOutput> {
        match &mut self.output {
            Output::Udp(_) => None,
            Output::Interleaved(output) => Some(output),
        }
    }

    /// Prefetches the data needed for sending, except the streams themselves.
    pub(crate) fn prefetch(&self) {
        self.output.prefetch();
        for other in &self.others {
            if let OtherOutput::Udp(output) = &other.output {
                output.prefetch();
            }
        }
    }

    #[inline]
    fn stream(&self, index: usize) -> &Stream {
        match index.checked_sub(1) {
            None => &self.first,
            Some(other) => &self.others[other].stream,
        }
    }

    #[inline]
    fn stream_mut(&mut self, index: usize) -> &mut Stream {
        match index.checked_sub(1) {
            None => &mut self.first,
            Some(other) => &mut self.others[other].stream,
        }
    }

    fn udp(&mut self, index: usize) -> Option<&mut UdpOutput> {
        match index.checked_sub(1) {
            None => match &mut self.output {
                Output::Udp(output) => Some(output),
                Output::Interleaved(_) => None,
            },
            Some(other) => match &mut self.others[other].output {
                OtherOutput::Udp(output) => Some(output),
                OtherOutput::Channel(..) => None,
            },
        }
    }
}

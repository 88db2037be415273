//! Outputs of streams: the ways by which their trains leave.

use std::sync::Arc;

use wirepath_datapath::interleaved::FrameTrain;
use wirepath_datapath::{
    DataPath, Headers, Lending, PacketMaker, SendError, SendOutcome, StoredTrains, Support, UdpSink, errno_of,
};

use crate::counters::ThreadCounters;
use crate::lending::LendingState;
use crate::progress::SharedProgress;
use crate::thread_state::ThreadState;

#[derive(Clone, Copy)]
pub(crate) struct DataPaths {
    /// For packets with the headers stored in the source.
    pub(crate) stored: DataPath,
    /// For packets with headers made by the playback.
    pub(crate) own: DataPath,
}

pub(crate) enum Output {
    Udp(UdpOutput),
    Interleaved(InterleavedOutput),
}

impl Output {
    /// Sends the first packets of trains, or queues all of the first one under `token`.
    #[inline]
    pub(crate) fn send(
        &mut self,
        trains: StoredTrains<'_>,
        thread: &mut ThreadState,
        token: u64,
    ) -> Result<SendOutcome<u32>, SendError> {
        match self {
            Output::Udp(output) => output.send(trains, thread, token),
            Output::Interleaved(output) => output.send(trains, thread, token),
        }
    }

    /// Prefetches the data needed for sending, except the output itself.
    pub(crate) fn prefetch(&self) {
        if let Output::Udp(output) = self {
            output.prefetch();
        }
    }
}

/// A UDP socket, and the data paths to it.
pub(crate) struct UdpOutput {
    sink: UdpSink,
    paths: DataPaths,
    /// True if the socket is set up for made headers, false if for stored ones.
    makes_headers: bool,
    /// The path that sent the last train.
    used: DataPath,
    /// State of lending to the receiver: trains leave by io_uring, from registered memory or from their file's
    /// mapping, whatever path is chosen for stored headers.
    lending: LendingState,
    /// True if the receiver did not request the packets.
    is_push: bool,
    progress: Arc<SharedProgress>,
    /// Maker of the packets, which has its own paths. Boxed, since few outputs use it.
    maker: Option<Box<PacketMaker>>,
}

impl UdpOutput {
    pub(crate) fn new(sink: UdpSink, paths: DataPaths, progress: Arc<SharedProgress>) -> UdpOutput {
        // No train has been looked up in registered memory yet.
        let path = paths.stored;
        let used = path.next().filter(|_| path.needs_hot_memory()).unwrap_or(path);
        progress.set_path(Some(used));
        let (makes_headers, is_push) = (false, false);
        let (lending, maker) = (LendingState::OFF, None);
        UdpOutput { sink, paths, makes_headers, used, lending, is_push, progress, maker }
    }

    /// The output whose packets are made in memory.
    pub(crate) fn making(self, maker: PacketMaker) -> UdpOutput {
        UdpOutput { maker: Some(Box::new(maker)), lending: LendingState::OFF, ..self }
    }

    /// The output to a receiver that did not request the packets.
    pub(crate) fn pushing(self) -> UdpOutput {
        UdpOutput { is_push: true, ..self }
    }

    /// Returns whether this error only loses packets, so that later ones may arrive. If nobody can be told of
    /// the error, any problem of the receiver, the interface or the file may be temporary.
    pub(crate) fn loses(&self, error: &SendError) -> bool {
        self.is_push && !matches!(error, SendError::Full { .. })
    }

    /// The output that sends trains by io_uring, unless its path sends packet by packet.
    pub(crate) fn lending(self) -> UdpOutput {
        let lending =
            if self.paths.stored.segments() { LendingState::UNLESS_COPIED } else { LendingState::OFF };
        UdpOutput { lending, ..self }
    }

    /// Maker of its packets, if there is one.
    pub(crate) fn maker(&mut self) -> Option<&mut PacketMaker> {
        self.maker.as_deref_mut()
    }

    /// Prefetches the data needed for sending, except the output itself.
    pub(crate) fn prefetch(&self) {
        self.sink.prefetch();
    }

    /// Notes and counts that a queued train has left.
    pub(crate) fn note_lent(&mut self, counters: &ThreadCounters) {
        self.lending.note_lent();
        counters.trains_lent.increment();
        if self.used == DataPath::WireMapping {
            counters.trains_mapped.increment();
        }
    }

    /// Notes that the kernel copied a lent train.
    pub(crate) fn note_copied(&mut self) {
        self.lending.note_copied();
    }

    #[inline]
    pub(crate) fn send(
        &mut self,
        trains: StoredTrains<'_>,
        thread: &mut ThreadState,
        token: u64,
    ) -> Result<SendOutcome<u32>, SendError> {
        let StoredTrains { file, headers, .. } = trains;
        let Some(train) = trains.trains.first() else { return Ok(SendOutcome::Sent(0)) };
        let makes_headers = headers != Headers::Stored;
        if let Some(maker) = &mut self.maker {
            let path = self.paths.stored;
            let sent = maker.send(&self.sink, trains, &mut thread.context, path);
            self.note_path(path);
            return sent.map(SendOutcome::Sent);
        }
        if makes_headers != self.makes_headers {
            self.prepare(makes_headers)?;
        }
        let rule = thread.lending.rule();
        let context = &mut thread.context;
        let usual = match makes_headers {
            true => self.paths.own,
            false if self.lending.is_on() => self.paths.stored.or_lent(train, file, context, thread.maps),
            false => self.paths.stored,
        };
        // Images and hot memory are not written, unlike the assets that packets with made headers come from.
        let copies = rule == Lending::Never || rule == Lending::Safe && makes_headers;
        let usual = usual.for_train(train, headers, file, context);
        let path = if copies { usual.copying() } else { usual };
        let outcome = path.enqueue(&self.sink, trains, context, token);
        if path != usual && outcome.is_ok() {
            thread.counters.trains_copied_by_rule.increment();
        }
        self.note_path(path.path());
        outcome
    }

    fn note_path(&mut self, path: DataPath) {
        if path != self.used {
            self.used = path;
            self.progress.set_path(Some(path));
        }
    }

    /// Sets up the socket for packets with made or with stored headers, whose paths may need different
    /// options.
    #[cold]
    fn prepare(&mut self, makes_headers: bool) -> Result<(), SendError> {
        self.makes_headers = makes_headers;
        let path = if makes_headers { &mut self.paths.own } else { &mut self.paths.stored };
        if self.sink.prepare(*path).is_err() {
            // Works everywhere, packet by packet.
            *path = DataPath::Sendmmsg;
            self.lending.stop();
            let call = "setsockopt";
            self.sink.prepare(*path).map_err(|error| SendError::Other { call, errno: errno_of(&error) })?;
        }
        Ok(())
    }

    pub(crate) fn step_down(&mut self, error: SendError, support: &Support) -> Result<(), SendError> {
        let local = self.sink.local_address().ip();
        if self.used.needs_ring() && self.used != self.paths.stored {
            // The train was lent in place of the chosen path.
            self.lending.stop();
            support.note_step_down(local, self.used, self.paths.stored, error);
            return Ok(());
        }
        let path = self.used.next().ok_or(error)?;
        support.note_step_down(local, self.used, path, error);
        self.sink.prepare(path).map_err(|_| error)?;
        // If the kernel module refuses made headers, the path for stored headers is not affected.
        if self.paths.stored == self.used || !self.used.needs_module() {
            self.paths.stored = path;
        }
        if path.makes_headers() {
            self.paths.own = path;
        }
        // The socket may be set up for single packets by now.
        if self.used.needs_ring() || !path.segments() {
            self.lending.stop();
        }
        Ok(())
    }
}

/// An RTSP connection, and the channel of the first stream.
pub(crate) struct InterleavedOutput {
    /// Key of the connection's writer on this thread.
    writer: usize,
    channel: u8,
    /// Maker of the packets of the first stream.
    maker: Option<Box<PacketMaker>>,
    /// State of lending to the client.
    lending: LendingState,
    /// True if the last train was lent.
    has_lent: bool,
    progress: Arc<SharedProgress>,
    /// Lateness beyond which a playback skips forward because its client reads too slowly.
    pub(crate) max_lag_us: u64,
    /// True from a full connection until the playback has caught up with its timetable.
    pub(crate) is_behind: bool,
    /// True while the connection is full.
    pub(crate) waits_for_room: bool,
    /// True until the response to PLAY is written, which clients expect before the first packet.
    pub(crate) is_held: bool,
}

impl InterleavedOutput {
    pub(crate) fn new(
        channel: u8,
        max_lag_us: u64,
        maker: Option<PacketMaker>,
        lending: LendingState,
        progress: Arc<SharedProgress>,
    ) -> InterleavedOutput {
        InterleavedOutput {
            writer: usize::MAX,
            channel,
            maker: maker.map(Box::new),
            lending,
            has_lent: false,
            progress,
            max_lag_us,
            is_behind: false,
            waits_for_room: false,
            is_held: false,
        }
    }

    /// Key of the writer.
    pub(crate) fn writer(&self) -> usize {
        self.writer
    }

    /// From now on, sends to the writer of this key.
    pub(crate) fn attach(&mut self, writer: usize) {
        self.writer = writer;
    }

    /// Resets the state of the last request to play.
    pub(crate) fn rest(&mut self) {
        (self.is_behind, self.waits_for_room, self.is_held) = (false, false, false);
    }

    #[inline]
    fn send(
        &mut self,
        trains: StoredTrains<'_>,
        thread: &mut ThreadState,
        token: u64,
    ) -> Result<SendOutcome<u32>, SendError> {
        let mut maker = self.maker.take();
        let channel = (self.channel, maker.as_deref_mut());
        let sent = self.send_in(channel, trains, thread, token);
        self.maker = maker;
        sent
    }

    /// Sends the first packets of the first train in a channel, as a maker makes them if there is one, or queues all
    /// of it.
    #[inline]
    pub(crate) fn send_in(
        &mut self,
        (channel, maker): (u8, Option<&mut PacketMaker>),
        trains: StoredTrains<'_>,
        thread: &mut ThreadState,
        token: u64,
    ) -> Result<SendOutcome<u32>, SendError> {
        let Some(frames) = FrameTrain::first_of(trains, channel) else { return Ok(SendOutcome::Sent(0)) };
        self.waits_for_room = false;
        let (writer, context) = (&mut thread.writers[self.writer], &mut thread.context);
        let lends = self.lending.is_on() && maker.is_none() && thread.lending.rule() != Lending::Never;
        if lends && writer.enqueue(&frames, context, token) {
            return Ok(SendOutcome::Queued);
        }
        self.note_way(false);
        let sent = writer.send(&frames, maker, context, token as usize);
        self.note_full(&sent);
        sent.map(SendOutcome::Sent)
    }

    /// Maker of the packets of the first stream, if there is one.
    pub(crate) fn maker(&mut self) -> Option<&mut PacketMaker> {
        self.maker.as_deref_mut()
    }

    /// Channel of the first stream.
    pub(crate) fn channel(&self) -> u8 {
        self.channel
    }

    /// Handles the result of a queued train: the number of bytes sent. Returns the number of packets sent.
    pub(crate) fn finish(
        &mut self,
        frames: &FrameTrain<'_>,
        result: Result<u32, SendError>,
        thread: &mut ThreadState,
        token: u64,
    ) -> Result<u32, SendError> {
        let (writer, context) = (&mut thread.writers[self.writer], &mut thread.context);
        let sent = match result {
            Ok(bytes) => {
                self.lending.note_lent();
                thread.counters.trains_lent.increment();
                writer.finish(frames, bytes, context)
            }
            // The copying call reports whether the connection is full or gone, or the ring could not send.
            Err(error) => {
                if !matches!(error, SendError::Full { .. }) {
                    self.lending.stop();
                }
                writer.send(frames, None, context, token as usize)
            }
        };
        self.note_way(result.is_ok());
        self.note_full(&sent);
        sent
    }

    /// Notes that the kernel copied a lent train.
    pub(crate) fn note_copied(&mut self) {
        self.lending.note_copied();
    }

    fn note_way(&mut self, has_lent: bool) {
        if has_lent != self.has_lent {
            self.has_lent = has_lent;
            self.progress.set_path(has_lent.then_some(DataPath::WireUring));
        }
    }

    fn note_full(&mut self, sent: &Result<u32, SendError>) {
        if matches!(sent, Err(SendError::Full { .. })) {
            (self.is_behind, self.waits_for_room) = (true, true);
        }
    }
}

//! Streams whose bytes nobody looks at: they go from one descriptor to another, or to several, through pipes of the kernel, and are
//! never copied to the program and back. From a file to a connection `sendfile` does it without a pipe.
//!
//! That is done where inputs have no framing, or records of a large fixed size, outputs wait, and there is no handler; see
//! [`leg`](super::leg). When that changes, what is in pipes leaves first.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use wirepath_datapath::{Pipe, SendError, sendfile};

use super::leg::Leg;
use super::{Input, Job, Output, Storage, Stream, StreamError, Supply};
use crate::object::{Available, Cold, Connection, Kind, Object, ObjectError, Source, StoredFile, TRUNCATED};
use crate::pattern::Spread;
use crate::record::Run;
use crate::write_progress::WriteProgress;
use wirepath_engine::TURN_BYTES;

/// Most bytes that one call is asked for, and least. By reference, half a mebibyte moves in some 200 microseconds; in calls of an
/// eighth it takes a quarter more processor time.
const MOST: usize = 1 << 20;
const LEAST: usize = 512 << 10;
const PAGE: usize = 4096;

/// Bytes that pipes take unless somebody says otherwise: 16 pages.
const USUAL: usize = 64 * 1024;

/// What came of moving.
enum Sent {
    Bytes(usize),
    /// The input has nothing now.
    Nothing,
    /// The output has no room now.
    Full,
    /// The output has to send first what it has.
    Wait,
    /// From now on everything is copied.
    Copied,
    End,
    /// To be brought into memory first.
    Cold(Cold),
    /// No more than so many bytes of the file are written yet.
    Unwritten(Arc<WriteProgress>, u64),
}

/// Who failed, before anything moved.
enum Fault {
    Input(ObjectError),
    /// The output at this place.
    Output(usize, ObjectError),
}

impl Stream {
    /// Takes from inputs what outputs get, which have sent what they had; answers whether anything was done. Of records many are
    /// taken, each with a call, before the outputs send them.
    pub(super) fn move_unseen(&mut self, now_us: u64) -> Result<bool, StreamError> {
        let enough = self.counts.bytes_in + self.room() as u64;
        let (mut progressed, mut is_idle) = (false, false);
        while let Some(leg) = self.next_leg(now_us).filter(|_| self.counts.bytes_in < enough) {
            let sent = match self.move_leg(&leg, now_us) {
                Ok(sent) => sent,
                Err(Fault::Input(error) | Fault::Output(_, error)) if error.errno == Errno::INVAL => {
                    // A terminal, or another thing that takes and gives only what is copied.
                    self.move_seen();
                    return Ok(true);
                }
                Err(Fault::Input(error)) => {
                    self.input_failed(leg.input, error.into());
                    return Ok(true);
                }
                Err(Fault::Output(place, error)) => return self.output_failed(place, error).map(|()| true),
            };
            is_idle = matches!(sent, Sent::Nothing);
            progressed |= !matches!(sent, Sent::Nothing | Sent::Full | Sent::Wait);
            if !self.note_moved(&leg, sent) {
                break;
            }
        }
        // Those of more outputs than the thread keeps pipes for would be closed, and opened again for whatever comes next.
        if is_idle && self.outputs.len() <= Pipe::KEPT {
            self.put_pipes_away();
        }
        Ok(progressed)
    }

    fn move_leg(&mut self, leg: &Leg, now_us: u64) -> Result<Sent, Fault> {
        if self.sends_file(leg) {
            return self.send_file(leg, now_us);
        }
        if have_equal_pipes(&mut self.outputs[leg.outputs.clone()]) {
            return self.fill_pipes(leg);
        }
        // No descriptor is left, or this user's pipes have used up their pages: then tee would not have room for all.
        self.move_seen();
        Ok(Sent::Copied)
    }

    /// From now on everything is copied; what is in pipes leaves first.
    fn move_seen(&mut self) {
        self.settings.moves_unseen = false;
        self.put_pipes_away();
    }

    /// Whether nobody has to look at what moves now.
    pub(super) fn can_move_unseen(&mut self) -> bool {
        let nothing_waits =
            self.pending.is_empty() && self.outputs.iter().all(|output| output.outbox.is_empty());
        nothing_waits && self.will_move_unseen()
    }

    /// Whether bytes go from a file straight to a connection.
    fn sends_file(&self, leg: &Leg) -> bool {
        // By capacity, who takes nothing must not hold up the others within a record.
        let has_choice = self.outputs.len() > 1 && matches!(self.spread, Spread::Capacity { .. });
        !has_choice
            && matches!(self.inputs[leg.input].object.kind, Kind::File(_) | Kind::Parts(_))
            && matches!(&self.outputs[leg.outputs.clone()], [one] if matches!(one.object.kind, Kind::Stream(_)))
    }

    /// How many bytes the turn leaves: each counts when it comes, and when each output has it.
    pub(super) fn room(&self) -> usize {
        let copies = if matches!(self.spread, Spread::Mirror) { self.outputs.len() as u64 } else { 1 };
        let left = self.turn_end.saturating_sub(self.moved()) / (1 + copies);
        // A rate may leave little; what is left of a whole turn is rather exceeded than cut in pieces.
        let least = if self.allowance >= TURN_BYTES { LEAST } else { PAGE };
        usize::try_from(left).unwrap_or(MOST).clamp(least, MOST)
    }

    fn send_file(&mut self, leg: &Leg, now_us: u64) -> Result<Sent, Fault> {
        let place = leg.outputs.start;
        // Without a pipe a byte takes half the time.
        let room = (2 * self.room()).min(leg.bytes);
        let (input, output) = (&mut self.inputs[leg.input], &mut self.outputs[place]);
        if output.held() > 0 {
            return Ok(Sent::Wait);
        }
        if !output.writable {
            return Ok(Sent::Full);
        }
        let sent = input.send_file(&output.object, place, room)?;
        if let Sent::Bytes(bytes) = sent {
            output.note_taken(bytes, now_us);
            self.counts.bytes_out += bytes as u64;
        }
        Ok(sent)
    }

    fn fill_pipes(&mut self, leg: &Leg) -> Result<Sent, Fault> {
        let room = self.room().min(leg.bytes);
        let place = leg.outputs.start;
        let (first, others) = self.outputs[leg.outputs.clone()].split_at_mut(1);
        let pipe = first[0].pipe().map_err(|error| Fault::Output(place, error))?;
        let sent = self.inputs[leg.input].fill_pipe(pipe, room).map_err(Fault::Input)?;
        match sent {
            Sent::Bytes(_) => {}
            Sent::Nothing if pipe.is_full() => return Ok(Sent::Wait),
            sent => return Ok(sent),
        }
        let copied = others.iter_mut().filter_map(|other| other.pipe.as_mut());
        // Each gets what it can, also behind one that could not.
        let not_reached = copied.filter_map(|other| pipe.copy_to(other).err()).count();
        if not_reached > 0 {
            self.copy_the_rest()?;
        }
        Ok(sent)
    }

    /// A pipe had not room for all that is in the first, though it is of its size: outputs get the rest by a copy, and so all that
    /// comes later.
    fn copy_the_rest(&mut self) -> Result<(), Fault> {
        self.settings.moves_unseen = false;
        let Some(Output { object, pipe: Some(pipe), .. }) = self.outputs.first_mut() else { return Ok(()) };
        let bytes = pipe.take().map_err(|errno| Fault::Output(0, object.error("read", errno)))?;
        for output in &mut self.outputs {
            let rest = bytes.slice(output.held()..);
            if !rest.is_empty() {
                output.outbox.offer(Run::single(rest, false, false));
            }
        }
        Ok(())
    }

    /// Counts what came of moving; answers whether there may be more to move before outputs send what they have.
    fn note_moved(&mut self, leg: &Leg, sent: Sent) -> bool {
        let input = &mut self.inputs[leg.input];
        match sent {
            Sent::Bytes(bytes) => {
                input.bytes += bytes as u64;
                self.counts.bytes_in += bytes as u64;
                self.counts.bytes_unseen += bytes as u64;
                return self.note_passed(leg, bytes);
            }
            Sent::Nothing => {
                input.readable = false;
                return true; // another may have something
            }
            Sent::Full => self.outputs[leg.outputs.start].writable = false,
            Sent::Wait => {}
            Sent::Copied => self.inputs_unchanged = false,
            Sent::End => {
                input.supply = Supply::Ended;
                self.inputs_unchanged = false;
                self.wake_input(leg.input);
            }
            Sent::Cold(cold) => {
                input.busy = true;
                self.storage.push(Storage { port: input.port, job: Job::Warm(cold) });
            }
            Sent::Unwritten(progress, known) => {
                if let Err(error) = input.await_writer(&progress, known, self.watcher.as_ref()) {
                    self.input_failed(leg.input, error.into());
                }
            }
        }
        false
    }

    /// While nothing comes, or nothing more will, others may need pipes more.
    pub(super) fn put_pipes_away(&mut self) {
        for output in &mut self.outputs {
            output.pipe.take_if(|pipe| pipe.held() == 0).into_iter().for_each(Pipe::put_away);
        }
    }
}

/// Gives every output a pipe; answers whether all have one, of one size, and of no less than pipes usually have: a user who has used up
/// what he may have gets some of two pages, through which bytes cost more than by copying them.
fn have_equal_pipes(outputs: &mut [Output]) -> bool {
    let mut first = None;
    outputs.iter_mut().all(|output| {
        let room = output.pipe().map_or(0, |pipe| pipe.room());
        room >= USUAL && *first.get_or_insert(room) == room
    })
}

impl Input {
    fn fill_pipe(&mut self, pipe: &mut Pipe, room: usize) -> Result<Sent, ObjectError> {
        let room = room.min(pipe.room());
        let filled = match &mut self.object.kind {
            Kind::Stream(connection) => match connection.fill_pipe(pipe, room) {
                Ok(0) if connection.has_urgent => return Ok(Sent::Copied),
                filled => filled,
            },
            Kind::File(file) => match file.available(room) {
                Ok(Available::Bytes(0)) => Ok(0),
                Ok(Available::Bytes(room)) => {
                    let mut offset = file.offset;
                    let filled = pipe.fill(file.file.as_fd(), Some(&mut offset), room);
                    file.offset += filled.unwrap_or(0) as u64;
                    filled
                }
                Ok(Available::Cold(cold)) => return Ok(Sent::Cold(cold)),
                Ok(Available::Unwritten(progress, known)) => return Ok(Sent::Unwritten(progress, known)),
                Err((call, errno)) => return Err(self.object.error(call, errno)),
            },
            Kind::Mapping(mapped) => match mapped.available(room) {
                Available::Bytes(0) | Available::Unwritten(..) => Ok(0), // nobody follows a mapping
                Available::Bytes(room) => {
                    let filled = pipe.fill_from(&mapped.mapping, mapped.offset..mapped.offset + room);
                    mapped.offset += filled.unwrap_or(0);
                    filled
                }
                Available::Cold(cold) => return Ok(Sent::Cold(cold)),
            },
            Kind::Listening(_) => Err(Errno::AGAIN),
            _ => Err(Errno::INVAL),
        };
        match filled {
            Ok(0) => Ok(Sent::End),
            Ok(bytes) => Ok(Sent::Bytes(bytes)),
            Err(Errno::AGAIN) => Ok(Sent::Nothing),
            Err(errno) => Err(self.object.error("splice", errno)),
        }
    }

    /// From a file straight to a connection, the output at `place`, up to `room` bytes.
    fn send_file(&mut self, to: &Object, place: usize, room: usize) -> Result<Sent, Fault> {
        let Kind::Stream(connection) = &to.kind else { return Ok(Sent::Nothing) };
        let sent = match &mut self.object.kind {
            Kind::File(file) => file.send_to(connection, room),
            Kind::Parts(parts) => match parts.next() {
                None => Ok(Sent::End),
                Some((Source::File(file), _)) => match file.send_to(connection, room) {
                    Ok(Sent::End) => Err(Side::Input(TRUNCATED, Errno::NODATA)),
                    sent => sent,
                },
                Some((Source::Bytes(bytes), is_followed)) => {
                    match connection.send_bytes(bytes, is_followed) {
                        Ok(sent) => Ok(Sent::Bytes(sent)),
                        Err(Errno::AGAIN) => Ok(Sent::Full),
                        Err(errno) => Err(Side::Output("send", errno)),
                    }
                }
            },
            _ => Ok(Sent::Nothing),
        };
        sent.map_err(|side| match side {
            Side::Input(call, errno) => Fault::Input(self.object.error(call, errno)),
            Side::Output(call, errno) => Fault::Output(place, to.error(call, errno)),
        })
    }
}

/// Who failed, by which call.
enum Side {
    Input(&'static str, Errno),
    Output(&'static str, Errno),
}

impl StoredFile {
    /// Straight to a connection, up to `room` bytes.
    fn send_to(&mut self, connection: &Connection, room: usize) -> Result<Sent, Side> {
        let room = match self.available(room).map_err(|(call, errno)| Side::Input(call, errno))? {
            Available::Bytes(0) => return Ok(Sent::End),
            Available::Bytes(room) => room,
            Available::Cold(cold) => return Ok(Sent::Cold(cold)),
            Available::Unwritten(progress, known) => return Ok(Sent::Unwritten(progress, known)),
        };
        match sendfile::to_stream(connection.descriptor.as_fd(), &self.file, self.offset, room) {
            Ok(bytes) => {
                self.offset += bytes as u64;
                Ok(Sent::Bytes(bytes))
            }
            Err(SendError::Full { .. }) => Ok(Sent::Full),
            Err(SendError::Storage { errno: Errno::NODATA, .. }) => Ok(Sent::End),
            Err(SendError::Storage { call, errno }) => Err(Side::Input(call, errno)),
            Err(
                SendError::Unsupported { call, errno }
                | SendError::NetworkDown { call, errno }
                | SendError::Other { call, errno },
            ) => Err(Side::Output(call, errno)),
            Err(SendError::Refused { call }) => Err(Side::Output(call, Errno::CONNREFUSED)),
        }
    }
}

impl Connection {
    /// Up to `room` bytes; 0 at the end, or before something urgent.
    fn fill_pipe(&mut self, pipe: &mut Pipe, room: usize) -> Result<usize, Errno> {
        let room = self.room(room);
        if room == 0 {
            return Ok(0);
        }
        let filled = pipe.fill(self.descriptor.as_fd(), None, room)?;
        self.left -= filled as u64;
        self.has_urgent = filled == 0 && !self.has_ended()?;
        Ok(filled)
    }

    /// Whether the peer has ended, where `splice` says so: it also says so before what came as urgent, when the peer has ended behind.
    fn has_ended(&self) -> Result<bool, Errno> {
        if !self.is_socket {
            return Ok(true);
        }
        let peeked = recv(&self.descriptor, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        peeked.map(|(bytes, _)| bytes == 0)
    }
}

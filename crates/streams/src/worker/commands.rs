//! What an engine thread is told, and what it does then.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use wirepath_datapath::Region;

use super::{Work, Worker};
use crate::download::DownloadTask;
use crate::playback::{PlayError, PlaybackTask, Position, Reply};
use crate::running::StreamTask;
use crate::schedule::Rate;
use crate::source::Cursor;
use crate::stream::Stored;
use crate::{Stream, StreamError};

/// What an engine thread is told.
pub(crate) enum Command {
    AddPlayback {
        id: u64,
        task: Box<PlaybackTask>,
    },
    AddDownload {
        id: u64,
        task: Box<DownloadTask>,
    },
    Play {
        id: u64,
        from: Option<Cursor>,
        until_us: u64,
        reply: Reply<Position>,
    },
    Pause {
        id: u64,
        reply: Reply<u64>,
    },
    Stop {
        id: u64,
    },
    /// What a download waited for is in memory, up to this byte, or could not be read.
    Warmed {
        id: u64,
        result: io::Result<u64>,
    },
    /// More is written of the file that a download sends.
    Grew {
        id: u64,
    },
    AddStream {
        id: u64,
        task: Box<StreamTask>,
    },
    /// Something to be done with a stream between two of its turns.
    WithStream {
        id: u64,
        act: Box<dyn FnOnce(&mut Stream) + Send>,
    },
    /// Another rate of a stream.
    SetRate {
        id: u64,
        rate: Option<Rate>,
    },
    /// Takes a stream off the thread and gives it to whoever listens there; to nobody if it ends first.
    TakeBack {
        id: u64,
        tell: Sender<Box<Stream>>,
    },
    /// What came of something that might have blocked, for an input or output of a stream.
    Stored {
        id: u64,
        stored: Stored,
    },
    /// Memory that trains may be sent from, until it is let go of.
    Hold(Arc<Region>),
    LetGo {
        region_id: u64,
    },
    Quit,
}

impl Worker {
    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::AddPlayback { id, task } => {
                self.add(id, Work::Playback(task));
            }
            Command::AddDownload { id, task } => self.add_download(id, task),
            Command::Play { id, from, until_us, reply } => self.play(id, from, until_us, reply),
            Command::Pause { id, reply } => self.pause(id, reply),
            Command::Stop { id } => {
                if let Some(key) = self.keys.get(&id).copied() {
                    self.remove(key, None);
                }
            }
            Command::Warmed { id, result } => self.warmed(id, result),
            Command::Grew { id } => self.grew(id),
            Command::AddStream { id, task } => self.add_stream(id, task),
            Command::WithStream { id, act } => self.with_stream(id, act),
            Command::SetRate { id, rate } => self.set_rate(id, rate),
            Command::TakeBack { id, tell } => self.take_back(id, tell),
            Command::Stored { id, stored } => self.stored(id, stored),
            Command::Hold(region) => self.sending.scratch.register(region),
            Command::LetGo { region_id } => self.sending.scratch.unregister(region_id),
            Command::Quit => {}
        }
    }

    pub(super) fn quit(mut self) {
        let keys: Vec<usize> = self.tasks.iter().map(|(key, _)| key).collect();
        for key in keys {
            let known = self.stream(key).and_then(|task| task.result.take());
            self.conclude_stream(key, known.unwrap_or(Err(StreamError::Stopped)));
            self.remove(key, Some(PlayError::Over));
        }
        for command in self.mailbox.close() {
            match command {
                Command::AddStream { mut task, .. } => {
                    task.end(Err(StreamError::Stopped));
                    self.readers.discard(task);
                }
                Command::Play { reply, .. } => reply(Err(PlayError::Over)),
                Command::Pause { reply, .. } => reply(Err(PlayError::Over)),
                _ => {}
            }
        }
    }
}

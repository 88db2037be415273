//! Servers of the user level: a thread for each connection, which reads, computes and writes. What they compute is
//! computed by the same functions as in `wirepath-images`.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use wirepath_images::{Plan, Question, open_picture};
use wirepath_streams::{Handler, Piece};

/// Bytes that are read at a time, so that what was read is found in the processor's cache.
const PIECE: usize = 64 * 1024;

/// Most slices of a call.
const SLICES: usize = 1024;

/// Manner of serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// The whole file is read, then all is computed, then all is written.
    Plain,
    /// What is needed is read piece by piece, computed in the cache and written; one buffer each way.
    Careful,
    /// As careful; rows of a part leave by `writev` from where they were read.
    Vectors,
}

impl Way {
    pub(crate) const ALL: [Way; 3] = [Way::Plain, Way::Careful, Way::Vectors];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Plain => "plain",
            Way::Careful => "careful",
            Way::Vectors => "vectors",
        }
    }
}

/// Serves a folder until it is killed.
pub(crate) fn serve(way: Way, folder: &Path) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("ready http=http://{}/", listener.local_addr()?);
    std::thread::scope(|scope| {
        for connection in listener.incoming() {
            let connection = connection?;
            connection.set_nodelay(true)?;
            scope.spawn(move || {
                let mut server = Server { way, folder, connection, read: Vec::new(), made: Vec::new() };
                if let Err(error) = server.run() {
                    eprintln!("{}: {error:#}", way.name());
                }
            });
        }
        Ok(())
    })
}

/// A connection, and its two buffers.
struct Server<'a> {
    way: Way,
    folder: &'a Path,
    connection: TcpStream,
    read: Vec<u8>,
    made: Vec<u8>,
}

impl Server<'_> {
    fn run(&mut self) -> Result<()> {
        let mut head = [0; 4096];
        loop {
            let mut filled = 0;
            while !head[..filled].ends_with(b"\r\n\r\n") {
                match self.connection.read(&mut head[filled..])? {
                    0 => return Ok(()),
                    read => filled += read,
                }
            }
            let target = head[..filled].split(|&byte| byte == b' ').nth(1).context("a target")?;
            let (path, query) = std::str::from_utf8(target)?.split_once('?').context("a query")?;
            self.answer(path, query)?;
        }
    }

    fn answer(&mut self, path: &str, query: &str) -> Result<()> {
        let file = File::open(self.folder.join(&path[1..]))?;
        let size = file.metadata()?.len();
        let picture = open_picture(size, |bytes, at| file.read_exact_at(bytes, at))?;
        let Question::Transformed(steps) = Question::parse(query)? else { bail!("{query} asks for nothing") };
        let plan = Plan::new(&picture, &steps)?;
        let rows: Vec<Range<u64>> = picture.extents(steps.crop.unwrap_or(picture.whole())).collect();
        let header = plan.header();
        let length = header.len() as u64 + plan.bytes();
        self.made.clear();
        write!(self.made, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")?;
        self.made.extend_from_slice(&header);
        let handlers = &mut plan.handlers(&picture)[..];
        match (self.way, handlers.is_empty()) {
            (Way::Plain, _) => self.plain(&file, size, &rows, handlers),
            (Way::Careful, true) => self.careful_part(&file, &rows),
            (Way::Vectors, true) => self.vectors(&file, &rows),
            (_, false) => self.careful(&file, &rows, handlers),
        }
    }

    fn plain(&mut self, file: &File, size: u64, rows: &[Range<u64>], handlers: &mut [Handler]) -> Result<()> {
        self.read.resize(size as usize, 0);
        file.read_exact_at(&mut self.read, 0)?;
        let part = |row: &Range<u64>| row.start as usize..row.end as usize;
        if handlers.is_empty() {
            rows.iter().for_each(|row| self.made.extend_from_slice(&self.read[part(row)]));
        } else {
            // The rows of a whole picture are one piece.
            let all = rows[0].start as usize..rows[rows.len() - 1].end as usize;
            pass(handlers, &self.read[all], &mut self.made)?;
        }
        Ok(self.connection.write_all(&self.made)?)
    }

    /// Reads rows with what is between them, moves them together and writes them.
    fn careful_part(&mut self, file: &File, rows: &[Range<u64>]) -> Result<()> {
        for some in pieces(rows) {
            let start = self.read_span(file, some)?;
            for row in some {
                self.made
                    .extend_from_slice(&self.read[(row.start - start) as usize..(row.end - start) as usize]);
            }
            self.connection.write_all(&self.made)?;
            self.made.clear();
        }
        Ok(())
    }

    /// The same, with one slice for each row and no second buffer.
    fn vectors(&mut self, file: &File, rows: &[Range<u64>]) -> Result<()> {
        for some in pieces(rows) {
            let start = self.read_span(file, some)?;
            let of_row =
                |row: &Range<u64>| &self.read[(row.start - start) as usize..(row.end - start) as usize];
            let slices = std::iter::once(&self.made[..]).chain(some.iter().map(of_row)).map(IoSlice::new);
            let mut slices: Vec<IoSlice<'_>> = slices.collect();
            let mut left = &mut slices[..];
            while !left.is_empty() {
                let most = left.len().min(SLICES);
                let written = self.connection.write_vectored(&left[..most])?;
                IoSlice::advance_slices(&mut left, written);
            }
            self.made.clear();
        }
        Ok(())
    }

    /// Reads from the first to the last of these rows; answers where that begins.
    fn read_span(&mut self, file: &File, rows: &[Range<u64>]) -> Result<u64> {
        let span = rows[0].start..rows[rows.len() - 1].end;
        self.read.resize((span.end - span.start) as usize, 0);
        file.read_exact_at(&mut self.read, span.start)?;
        Ok(span.start)
    }

    /// Reads a whole picture piece by piece, has the handlers compute, and writes.
    fn careful(&mut self, file: &File, rows: &[Range<u64>], handlers: &mut [Handler]) -> Result<()> {
        let span = rows[0].start..rows[rows.len() - 1].end;
        self.read.resize(PIECE, 0);
        for start in span.clone().step_by(PIECE) {
            let length = (span.end - start).min(PIECE as u64) as usize;
            file.read_exact_at(&mut self.read[..length], start)?;
            pass(handlers, &self.read[..length], &mut self.made)?;
            self.connection.write_all(&self.made)?;
            self.made.clear();
        }
        Ok(())
    }
}

/// Rows in groups whose span is about as long as a piece that stays in the cache.
fn pieces(rows: &[Range<u64>]) -> impl Iterator<Item = &[Range<u64>]> {
    let stride = rows.get(1).map_or(1, |next| next.start - rows[0].start);
    rows.chunks(((4 * PIECE) as u64 / stride).clamp(1, SLICES as u64 - 1) as usize)
}

/// Passes a piece through one handler, and puts what it makes behind `made`.
fn pass(handlers: &mut [Handler], bytes: &[u8], made: &mut Vec<u8>) -> Result<()> {
    let [Handler::Rewrite(handler)] = handlers else { bail!("one handler that rewrites") };
    let before = made.len();
    made.resize(before + handler.room(bytes.len()), 0);
    let piece = Piece::part(bytes, false, false);
    let written = handler.rewrite(piece, &mut made[before..])?.unwrap_or(0);
    made.truncate(before + written);
    Ok(())
}

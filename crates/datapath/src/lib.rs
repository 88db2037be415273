//! Data paths from storage to a socket, one file each, and the choice between them: those that serve in
//! `serving`, those kept for the assessment in `assessed`.
//!
//! A [`DataPath`] takes a [`Train`] of a [`MappedFile`] and a [`UdpSink`], and returns how many packets it
//! sent: [`DataPath::send`]. [`ResolvedPath::enqueue`] and [`SendContext::flush`] send many trains in one
//! call, by paths that support it. HTTP bodies and streams leave by [`sendfile::to_stream`] and [`Pipe`]. A
//! [`BlockPath`], for the assessment only, takes an [`Extent`] of a file and a [`BlockSink`], UDP or TCP, and
//! returns how many bytes it sent. No path blocks, sends part of a datagram or allocates; its errors name the
//! call that failed.
//!
//! ```
//! use std::io::Write;
//! use std::net::UdpSocket;
//! use wirepath_datapath::rtp::{Header, PAYLOAD_TYPE_MP2T, Run};
//! use wirepath_datapath::{DataPath, Headers, MappedFile, SendContext, Train, UdpSink};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Four packets, 188 bytes of payload each; their headers are generated.
//! let mut file = tempfile::tempfile()?;
//! file.write_all(&[0x47; 4 * 188])?;
//! let file = MappedFile::new(file, 4 * 188)?;
//! let first =
//!     Header { padding: false, marker: false, payload_type: PAYLOAD_TYPE_MP2T, sequence: 1, timestamp: 0, ssrc: 7 };
//! let run = Run::new(first, 90 << 16);
//! let (length, packet_size) = (4 * 188, 188);
//! let train = Train { offset: 0, length, packet_size, skip: 0, first: 0, packets_before: 0, run };
//!
//! let (receiver, socket) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
//! socket.connect(receiver.local_addr()?)?;
//! let (path, mut context) = (DataPath::Sendmmsg, SendContext::default());
//! let sink = UdpSink::new(socket, 12 + 188, path)?;
//! assert_eq!(path.send(&sink, &file, &train, Headers::Generated, &mut context)?, 4);
//!
//! let mut packet = [0; 1500];
//! assert_eq!(receiver.recv(&mut packet)?, 12 + 188);
//! assert_eq!(packet[2..4], 1u16.to_be_bytes());
//! # Ok(())
//! # }
//! ```

mod assessed;
mod buffer;
pub mod calibration;
mod calls;
mod choice;
mod cork;
mod error;
mod framed_copy;
mod framing;
mod joined_trains;
mod lending;
mod loans;
mod mapped_file;
pub mod measure;
mod names;
mod packet_maker;
mod path;
mod pipe;
mod probe;
mod read_once;
mod request;
mod send;
mod send_context;
mod serving;
mod sink;
pub mod to_many;
mod train;
mod uring;

pub use assessed::block_path::BlockPath;
pub use assessed::block_sink::BlockSink;
pub use assessed::loan_policy::{LoanPolicy, LoanSwitch};
pub use choice::{Choice, Support};
pub use error::SendError;
pub use framed_copy::FramedCopy;
pub use joined_trains::JoinedTrains;
pub use lending::{Lending, LendingError, LendingSwitch};
pub use loans::{LoanCounts, LoanRoutes, most_readings};
pub use mapped_file::{CopyLayout, Extent, MappedFile, PageCache, advise, read_only_as_told};
pub use names::UnknownPath;
pub use packet_maker::{Extensions, PacketMaker};
pub use path::DataPath;
pub use pipe::Pipe;
pub use probe::{Trial, release, try_on_loopback};
pub use read_once::uncached_reads;
pub use send::ResolvedPath;
pub use send_context::{SendContext, SendOutcome};
pub use serving::{interleaved, sendfile};
pub use sink::{UdpSink, path_mtu};
pub use train::{Headers, StoredTrains, Train};
pub use uring::{RegisterError, RegistrationProgress};
/// Header extensions of ONVIF replay.
pub use wirepath_media::replay;
/// The packet type that trains are made of.
pub use wirepath_media::rtp;
/// Keys of SRTP, and the length of its tag.
pub use wirepath_media::srtp;
/// Reading into the spare capacity of a buffer.
pub use wirepath_sys::append;
/// Batched receive of datagrams.
pub use wirepath_sys::batches;
/// Blocks that are written, passed on in parts, and reused.
pub use wirepath_sys::blocks::Blocks;
/// Prefetching of sinks.
pub use wirepath_sys::cpu::prefetch;
/// Datagrams of one size, many in a call.
pub use wirepath_sys::datagrams;
/// Network devices by their addresses, and their drivers.
pub use wirepath_sys::device::{DeviceName, all_with_address as devices_of, driver as driver_of};
/// The errno of an [`io::Error`](std::io::Error).
pub use wirepath_sys::errno_of;
/// Most datagrams of a train.
pub use wirepath_sys::gather::MAXIMUM_DATAGRAMS;
/// Memory of the allocator.
pub use wirepath_sys::heap;
/// Mappings of files and memory that only the kernel reads, and the most ranges of them in a call.
pub use wirepath_sys::mapping::{MAXIMUM_RANGES, Mapping};
/// Error of opening the kernel module's device.
pub use wirepath_sys::module::OpenError;
/// Pages of the caller that may be lent.
pub use wirepath_sys::pages::{PageBuffer, ReclaimError, SharedPages};
/// Memory that a ring sends from.
pub use wirepath_sys::region::Region;
/// Socket options.
pub use wirepath_sys::socket;

/// Bytes that were read from storage for the calling thread.
pub use wirepath_sys::usage::bytes_read_by_thread;

//! Data paths from storage to a socket, one file each, and the choice between them: those that serve in
//! `serving`, those kept for the assessment in `assessed`.
//!
//! For streaming, a data path takes a [`Train`] of a [`MappedFile`] and a [`UdpSink`], and answers how many
//! packets it sent: [`DataPath::send`]. For download, without headers, it takes an [`Extent`] of a file and a
//! [`BlockSink`], UDP or TCP, and answers how many bytes it sent: [`BlockPath::send`]. None blocks, sends
//! part of a datagram or allocates; each says which call failed. [`DataPath::enqueue`] and
//! [`SendContext::flush`] send many trains in one call, by paths that can.
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
//!     Header { marker: false, payload_type: PAYLOAD_TYPE_MP2T, sequence: 1, timestamp: 0, ssrc: 7 };
//! let run = Run { first, step: 90 << 16 };
//! let train = Train { offset: 0, length: 4 * 188, packet_size: 188, skip: 0, first: 0, run };
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
mod block_path;
mod block_sink;
mod buffer;
pub mod calibration;
mod calls;
mod choice;
mod cork;
mod error;
mod loan_policy;
mod loans;
mod mapped_file;
pub mod measure;
mod module_device;
mod path;
mod probe;
mod request;
mod send;
mod send_context;
mod serving;
mod sink;
mod splice;
mod train;
mod uring;

pub use block_path::{BlockPath, UnknownBlockPath};
pub use block_sink::BlockSink;
pub use choice::{Choice, Support};
pub use error::SendError;
pub use loan_policy::{LoanPolicy, LoanSwitch};
pub use loans::{LOANS_FOR_A_READING, LoanCounts};
pub use mapped_file::{Extent, MappedFile, PageCache};
pub use path::{DataPath, UnknownDataPath};
pub use probe::{Trial, release, try_on_loopback};
pub use send::TrainPath;
pub use send_context::{SendContext, SendOutcome};
pub use serving::sendfile;
pub use sink::{UdpSink, path_mtu};
pub use splice::{Pipe, errno_of};
pub use train::{Headers, Train};
pub use uring::{RegisterError, RegistrationProgress};
/// The packet type that trains are made of.
pub use wirepath_media::rtp;
/// Reading into the spare capacity of a buffer.
pub use wirepath_sys::append;
/// A hint, for whoever has many sinks to send to.
pub use wirepath_sys::cpu::prefetch;
/// Datagrams of one size, many in a call.
pub use wirepath_sys::datagrams;
/// Most datagrams of a train.
pub use wirepath_sys::gather::MAXIMUM_DATAGRAMS;
/// Files and memory that only the kernel looks into.
pub use wirepath_sys::mapping::Mapping;
/// Why the kernel module cannot be asked.
pub use wirepath_sys::module::OpenError;
/// Memory of a caller's own that can be lent.
pub use wirepath_sys::pages::{PageBuffer, ReclaimError, SharedPages};
/// Memory that a ring sends from.
pub use wirepath_sys::region::Region;
/// What sockets have been set to and say.
pub use wirepath_sys::socket;

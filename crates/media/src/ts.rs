//! MPEG-2 transport streams (ISO/IEC 13818-1): finds the packets in a file, reads its tables and clock, and
//! finds the points at which a decoder can start.
//!
//! Data flows one way: bytes → [`Deframer`] → runs of [`Packets`] → [`Survey`], which reads the tables with
//! [`Psi`], chooses the programme that is played, and times its packets with [`Clock`]. The bytes may be
//! split anywhere, and only a bounded number of them is kept.

mod access;
mod association;
mod choice;
mod clock;
mod crc;
mod deframe;
mod framing;
mod packet;
mod programme;
mod psi;
mod section;
mod service;
mod survey;
pub mod synthetic;
mod video;
mod warning;

pub use association::association;
pub use choice::Played;
pub use clock::{Clock, NOMINAL_TICKS_PER_PACKET, Rate, Stretch};
pub use deframe::{Deframer, Event, Packets};
pub use framing::{DETECTION_BYTES, Framing, NotTransportStream, check_head};
pub use packet::{Adaptation, NULL_PID, PACKET_LENGTH, Packet, Pcr, SYNC_BYTE, TICKS_PER_SECOND};
pub use programme::{Codec, Programme, Stream};
pub use psi::{MAX_PROGRAMMES, Psi};
pub use service::{SERVICE_PID, Service, Services};
pub use survey::{LOOKAHEAD_PACKETS, LOOKAHEAD_PLACES, NoClock, Survey};
pub use video::{VideoFormat, VideoProbe};
pub use warning::{Warning, WarningKind, Warnings};

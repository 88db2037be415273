//! RTSP sessions on playbacks, HTTP on streams.

mod admission;
mod archive;
mod asset_player;
mod burst_limits;
mod calibrated;
mod catalog;
mod channels;
mod core;
mod describe;
mod epoch;
mod formats;
mod heap_trim;
mod http;
pub mod images;
mod joined;
mod library;
mod link;
mod memory_limit;
mod multicast;
mod played_as;
mod playlist;
mod plays;
mod reload;
mod rtsp;
mod sender_report;
mod sending;
mod server;
mod session_limit;
mod start_error;
mod status;
mod thread_time;
mod tls;
mod waiting_play;
mod warnings;

pub use admission::AdmissionPolicy;
pub use archive::{ArchiveOptions, Gaps, NamePattern, PatternError, TimeZone};
pub use burst_limits::FolderBurst;
pub use catalog::{CatalogError, CatalogOptions};
pub use channels::{ChannelError, LiveChannelOptions};
pub use http::{Disposition, FolderCacheControl, FolderDisposition, LibrarySite, ResponseFields};
pub use images::{HotMemorySize, ImagePolicy};
pub use library::{Library, LibraryError};
pub use multicast::MulticastRange;
pub use playlist::{Entry as PlaylistEntry, ListForm, Playlist, PlaylistError};
pub use reload::{AccessRules, ReloadError, ReloadableOptions, Reloader};
pub use rtsp::{RtspOptions, SrtpKeys, port_pairs};
pub use sending::{
    ChannelOptions, ChannelStatus, Destination, Form, Interface, OutputStatus, PortUse, SendFailure, Sender,
    SenderOptions,
};
pub use server::{PopularityKeeper, Server, ServerOptions};
pub use session_limit::TooManySessions;
pub use start_error::StartError;
pub use tls::{TlsAddresses, TlsOptions};
pub use wirepath_datapath::{DataPath, Lending};
pub use wirepath_playback::Burst;

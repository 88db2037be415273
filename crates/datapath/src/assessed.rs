//! Data paths for the assessment only: those of the papers, all paths for blocks, and others that no server
//! chooses.

pub(crate) mod block_path;
pub(crate) mod block_sink;
pub(crate) mod framed_packets;
pub(crate) mod gso_zerocopy;
pub(crate) mod ksendfile;
pub(crate) mod loan;
pub(crate) mod loan_policy;
pub(crate) mod mmap_send_msend;
pub(crate) mod mmap_send_rtp;
pub(crate) mod mmap_zerocopy;
pub(crate) mod read_send_rtp;
pub(crate) mod read_write;
pub(crate) mod rtp_sendfile;
pub(crate) mod send_block;
pub(crate) mod sendfilew;
pub(crate) mod uring_send;

//! Data paths kept for the assessment: those of the papers, and others that no server chooses.

pub(crate) mod gso_zerocopy;
pub(crate) mod kmsend;
pub(crate) mod krtpmsend;
pub(crate) mod ksendfile;
pub(crate) mod mmap_msend;
pub(crate) mod mmap_rtpmsend;
pub(crate) mod mmap_send_msend;
pub(crate) mod mmap_send_rtp;
pub(crate) mod mmap_writev;
pub(crate) mod read_send_rtp;
pub(crate) mod read_write;
pub(crate) mod rtp_sendfile;
pub(crate) mod rtpsendfile;
pub(crate) mod sendfilew;
pub(crate) mod uring_send;

//! What every path does alike, whether it needs the kernel module or not.

use std::os::unix::fs::FileExt;

use wirepath_datapath::{Headers, Path, Scratch, SendError};
use wirepath_media::rtp::HEADER_LENGTH;

use super::{Example, HOSTS, KINDS};

/// A start in the middle of a packet leaves the beginning of its payload out.
pub(crate) fn begins_in_the_middle_of_a_packet(path: Path) {
    for headers in [Headers::Stored, Headers::Generated] {
        let mut example = Example::new(headers, 4095, 1316, 1, 1316);
        example.train.skip = 376;
        example.expected[0].drain(HEADER_LENGTH..HEADER_LENGTH + 376);
        assert_eq!(example.is_delivered(path), Ok(()));
    }
}

/// The file ends inside the train: an error, never a signal; and when it is whole again, so is what is sent: no part of the packet
/// that failed waits in the socket.
pub(crate) fn says_that_a_file_was_truncated(path: Path) {
    for (host, headers) in HOSTS.into_iter().flat_map(|host| KINDS.map(|headers| (host, headers))) {
        let example = Example::new(headers, 0, 1316, 40, 1316);
        let (sink, receiver) = example.sink_to(host, path);
        let mut scratch = Scratch::default();
        example.medium.file().set_len(0).unwrap();
        let error = example.send(path, &sink, &mut scratch).unwrap_err();
        assert!(matches!(error, SendError::Storage { .. }), "{path}, {headers:?}: {error:?}");
        example.medium.file().write_all_at(&example.bytes, 0).unwrap();
        assert_eq!(example.send(path, &sink, &mut scratch), Ok(()), "{path}, {headers:?}");
        assert_eq!(example.has_arrived(&receiver), Ok(()), "{path}, {headers:?}");
    }
}

/// Told within two trains: a call that sent some packets before it met the error does not say it.
pub(crate) fn says_that_a_port_is_closed(path: Path) {
    for (host, headers) in HOSTS.into_iter().flat_map(|host| KINDS.map(|headers| (host, headers))) {
        let example = Example::new(headers, 0, 100, 5, 100);
        let (sink, receiver) = example.sink_to(host, path);
        drop(receiver);
        let mut scratch = Scratch::default();
        let mut send = || example.send(path, &sink, &mut scratch);
        let refused = send().and_then(|()| send());
        assert!(matches!(refused, Err(SendError::Refused { .. })), "{path}: {refused:?}");
    }
}

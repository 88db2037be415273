//! Checks of every path with a train, for lists of paths: those that need nothing, and those that need the
//! module.

use std::os::unix::fs::FileExt;

use proptest::prelude::*;
use wirepath_datapath::{DataPath, Headers, SendContext, SendError};
use wirepath_media::rtp::HEADER_LENGTH;
use wirepath_testkit::udp::close_port;

use super::{Example, HOSTS, KINDS};

/// The bodies of the tests of `paths`, with so many random cases each.
pub(crate) struct Delivered {
    pub(crate) paths: Vec<DataPath>,
    pub(crate) cases: u32,
}

impl Delivered {
    fn config(&self) -> ProptestConfig {
        ProptestConfig { cases: self.cases, failure_persistence: None, ..ProptestConfig::default() }
    }

    fn by_all(&self, example: &Example) -> Result<(), TestCaseError> {
        let delivered = self.paths.iter().try_for_each(|path| example.is_delivered(*path));
        delivered.map_err(TestCaseError::fail)
    }

    fn to_both_hosts(&self) -> impl Iterator<Item = (DataPath, &'static str)> {
        self.paths.iter().flat_map(|path| HOSTS.map(|host| (*path, host)))
    }

    pub(crate) fn stored_headers(&self) {
        proptest!(self.config(), |(
            offset in 0usize..9000, payload in 1usize..1400, packets in 1u32..40, last in 1usize..1400,
        )| {
            self.by_all(&Example::new(Headers::Stored, offset, payload, packets, last.min(payload)))?;
        });
    }

    pub(crate) fn own_headers(&self) {
        proptest!(self.config(), |(
            offset in 0usize..9000, payload in 1usize..1400, packets in 1u32..40, last in 1usize..1400,
            sequence_offset: u16, timestamp_offset: u32, marker: bool, stored: bool, step: u32,
        )| {
            let headers = Headers::Own { sequence_offset, timestamp_offset, marker, stored };
            for step in [step, step & !0xffff] {
                self.by_all(&Example::with_step(step, headers, offset, payload, packets, last.min(payload)))?;
            }
        });
    }

    pub(crate) fn generated_headers(&self) {
        proptest!(self.config(), |(
            offset in 0usize..9000, payload in 1usize..9000, packets in 1u32..6, last in 1usize..9000, step: u32,
        )| {
            for step in [step, step & !0xffff] {
                let last = last.min(payload);
                self.by_all(&Example::with_step(step, Headers::Generated, offset, payload, packets, last))?;
            }
        });
    }

    pub(crate) fn a_start_in_the_middle_of_a_packet(&self) {
        for headers in KINDS {
            let mut example = Example::new(headers, 4095, 1316, 1, 1316);
            example.train.skip = 376;
            example.expected[0].drain(HEADER_LENGTH..HEADER_LENGTH + 376);
            self.by_all(&example).unwrap();
        }
    }

    /// The file ends inside the train: an error, never a signal, on every path; and when it is whole again,
    /// so is what is sent: no part of the packet that failed waits in the socket.
    pub(crate) fn a_truncated_file_is_an_error_of_storage_and_leaves_nothing_behind(&self) {
        for (path, host) in self.to_both_hosts() {
            for headers in KINDS {
                let example = Example::new(headers, 0, 1316, 40, 1316);
                let (sink, receiver) = example.sink_to(host, path);
                let mut scratch = SendContext::default();
                example.medium.file().set_len(0).unwrap();
                let error = example.send(path, &sink, &mut scratch).unwrap_err();
                assert!(matches!(error, SendError::Storage { .. }), "{path}, {headers:?}: {error:?}");
                example.medium.file().write_all_at(&example.bytes, 0).unwrap();
                assert_eq!(example.send(path, &sink, &mut scratch), Ok(()), "{path}, {headers:?}");
                assert_eq!(example.has_arrived(&receiver), Ok(()), "{path}, {headers:?}");
            }
        }
    }

    /// Told within two trains: a call that sent some packets before it met the error does not say it.
    pub(crate) fn a_closed_port_is_told(&self) {
        for (path, host) in self.to_both_hosts() {
            for headers in KINDS {
                let example = Example::new(headers, 0, 100, 5, 100);
                let (sink, receiver) = example.sink_to(host, path);
                close_port(&receiver);
                let mut scratch = SendContext::default();
                let mut send = || example.send(path, &sink, &mut scratch);
                let refused = send().and_then(|()| send());
                assert!(matches!(refused, Err(SendError::Refused { .. })), "{path}: {refused:?}");
            }
        }
    }
}

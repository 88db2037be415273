use std::io::Read;
use std::net::Shutdown;

use wirepath_datapath::{BlockPath, LoanPolicy, MappedFile, SendContext};

use super::super::tests::in_namespace;
use super::*;
use crate::case::Case;
use crate::result::Transport;
use crate::send::Sending;
use crate::sent::Sent;
use crate::subject::PathKind;
use crate::test_socket::{TestSocket, Watch};

const FILE: u64 = 4 << 20;
const VOLUME: u64 = 32 << 20;

/// Calls `act` with the device, for each MTU; does nothing, and says so, where it cannot be created.
fn with_sink(act: impl Fn(&TcpSink) -> Result<(), Error> + Send + Sync) {
    for mtu in [1500, 9000] {
        in_namespace(|_| match TcpSink::create(mtu) {
            Ok(sink) => act(&sink),
            Err(Error::Unable(why)) => {
                println!("skipped: no device acknowledges TCP here: {why}");
                Ok(())
            }
            Err(error) => Err(error),
        });
    }
}

fn case(path: BlockPath, size: u16) -> Case {
    let loans = LoanPolicy { forced: Some(true), ..LoanPolicy::default() };
    Case { loans, ..Case::new(PathKind::Block(path), Transport::Tcp, Some(size)) }
}

/// Sends a volume on a new connection.
fn sent_by<'a>(case: &Case, sink: &'a TcpSink) -> Result<(TestSocket, Acknowledgements<'a>, Sent), Error> {
    let file = tempfile::tempfile().doing("making a file")?;
    file.set_len(FILE).doing("making a file")?;
    let medium = MappedFile::new(file, FILE).doing("mapping a file")?;
    let (socket, acknowledgements) = sink.connect()?;
    let socket = TestSocket::stream(case, socket)?;
    let (mut context, mut watch) = (SendContext::default(), Watch::Acknowledgements(acknowledgements));
    let mut sending = Sending::new(case, &medium, 0, &socket, &mut context, watch.most_at_once());
    let sent = sending.all(case.walk(FILE, VOLUME).stretches(1), &mut watch)?;
    let Watch::Acknowledgements(acknowledgements) = watch else { unreachable!("it was made above") };
    Ok((socket, acknowledgements, sent))
}

/// Promise: Over TCP `--sink drop` acknowledges every byte without a receiver, and keeps no page: no loan is copied.
#[test]
fn copied_and_lent_bytes_are_acknowledged_and_a_connection_ends() {
    with_sink(|sink| {
        let sizes = [1024, 4096, 32_768, 65_535];
        let paths = [BlockPath::ReadWrite, BlockPath::Sendfile, BlockPath::MmapZerocopy, BlockPath::Loan];
        for (path, size) in paths.into_iter().flat_map(|path| sizes.map(|size| (path, size))) {
            let before = sink.counted()?;
            let (socket, acknowledgements, sent) = sent_by(&case(path, size), sink)?;
            assert_eq!(sent.bytes, VOLUME, "{path}");
            assert_eq!(acknowledgements.bytes()?, (VOLUME, VOLUME), "{path}, {size} bytes");
            if let Some(loans) = sent.loans {
                assert!(loans.loans > 0 && loans.outstanding == 0, "{path}, {size} bytes: {loans:?}");
                assert_eq!(loans.copied_by_kernel, 0, "{path}, {size} bytes: {loans:?}");
            }
            assert_eq!(path.lends(), sent.loans.is_some(), "{path}");
            drop(socket);
            let mut connection = &acknowledgements.connection;
            connection.shutdown(Shutdown::Write).doing("ending the connection")?;
            assert_eq!(connection.read(&mut [0; 1]).doing("waiting for the peer's end")?, 0, "{path}");
            let counted = sink.counted()?.since(before);
            assert_eq!((counted.connections, counted.ends), (1, 1), "{path}: {counted:?}");
        }
        Ok(())
    });
}

/// Promise: A run over TCP to `--sink drop` whose bytes the device or the connection counts otherwise has no figure.
#[test]
fn bytes_that_are_not_those_that_were_sent_are_an_error() {
    with_sink(|sink| {
        let case = case(BlockPath::ReadWrite, 4096);
        for (claimed, is_right) in [(VOLUME, true), (VOLUME + 1, false), (VOLUME - 1, false)] {
            let (_socket, acknowledgements, sent) = sent_by(&case, sink)?;
            let sent = Sent { transport_bytes: claimed, ..sent };
            let settled = Watch::Acknowledgements(acknowledgements).settle(&case, &sent, 1500);
            assert_eq!(settled.is_ok(), is_right, "{claimed}: {settled:?}");
        }
        // Of another connection: the device counts more than this one has sent.
        let (_, acknowledgements) = sink.connect()?;
        let (_socket, ..) = sent_by(&case, sink)?;
        assert_eq!(acknowledgements.bytes()?, (0, VOLUME));
        Ok(())
    });
}

#[test]
fn a_reset_ends_a_connection_and_the_next_one_opens() {
    with_sink(|sink| {
        let before = sink.counted()?;
        for _ in 0..3 {
            let (socket, _acknowledgements) = sink.connect()?;
            // Closing with a time limit of zero is a reset.
            let socket = socket2::Socket::from(socket);
            socket.set_linger(Some(Duration::ZERO)).doing("setting up a connection")?;
        }
        let counted = sink.counted()?.since(before);
        assert_eq!((counted.connections, counted.ends, counted.bytes), (3, 0, 0), "{counted:?}");
        Ok(())
    });
}

//! How much a turn moves.

use super::*;

/// Others wait while a stream has its turn: it may move what it is allowed, and one call more.
#[test]
fn a_turn_moves_what_it_may() {
    const TURN: u64 = 256 * 1024;
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![7; 20_000_000]).unwrap();
    let file = Object::file("file", Arc::new(file), 0);
    let checksum = || Handler::Read(Box::new(crate::handlers::Checksum::default()));
    let readers = || (0..30).map(|_| UnixStream::pair().unwrap());
    for (builder, outputs, most) in [
        (StreamBuilder::default().input(file, Framing::Whole), 1, TURN + (1 << 20)),
        (
            StreamBuilder::default()
                .handler(checksum())
                .input(memory(&vec![7; 2_000_000]), Framing::Fixed(1000)),
            30,
            3 * TURN,
        ),
    ] {
        let (outlets, mut readers): (Vec<UnixStream>, Vec<UnixStream>) = readers().take(outputs).unzip();
        let outlets = outlets.into_iter().map(|outlet| Object::stream("out", outlet.into()).unwrap());
        let mut stream = outlets.fold(builder.pattern(OutputPattern::Mirror), StreamBuilder::output).build();
        readers.iter_mut().for_each(|reader| reader.set_nonblocking(true).unwrap());
        let mut read = vec![0; 1 << 20];
        loop {
            let (acted, moved) = stream.act(TURN, 0);
            assert!(moved <= most, "{moved} in one turn");
            stream
                .take_storage()
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|storage| stream.stored(storage.run()).unwrap());
            match acted {
                Acted::Ended(ended) => break ended.unwrap(),
                Acted::Wait | Acted::Deliver => {
                    for reader in &mut readers {
                        while reader.read(&mut read).is_ok_and(|length| length > 0) {}
                    }
                    (0..31).for_each(|port| stream.note_ready(Port(port)));
                }
                Acted::More => {}
            }
        }
        let status = stream.status();
        assert_eq!(status.bytes_out, status.bytes_in * outputs as u64);
    }
}

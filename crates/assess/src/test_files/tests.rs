use super::*;
use crate::case::RUN;
use crate::progress::NoProgress;
use std::os::unix::fs::FileExt;

/// Options of a quick run with small files below `scratch`.
pub(crate) fn options(scratch: &Path) -> Options {
    Options {
        volume: 3 << 20,
        runs: 1,
        quick: true,
        cache: Cache::Warm,
        sink: crate::Sink::Loopback,
        mtu: 1500,
        cpu: None,
        file: None,
        bare: None,
        scratch: scratch.to_owned(),
        calibration: scratch.join("calibration.json"),
        loans: None,
        parts: Vec::new(),
        handlers: false,
        kernel_handler: None,
    }
}

#[test]
fn ready_packets_are_headers_and_the_payload() {
    let folder = tempfile::tempdir().unwrap();
    let mut media = Media::open(&options(folder.path()), 2, 2048, &mut NoProgress).unwrap();
    media.ensure(Content::Ready(1000), &mut NoProgress).unwrap();
    let mut payload = vec![0; media.length() as usize];
    media.prepared(Content::Payload).unwrap().file().read_exact_at(&mut payload, 0).unwrap();
    assert!(payload.chunks(4096).all(|page| page.iter().any(|byte| *byte != 0)));
    let packets = std::fs::read(make::name(folder.path(), Content::Ready(1000), 3 << 20)).unwrap();
    let mut read = Vec::new();
    for (index, packet) in packets.chunks(HEADER_LENGTH + 1000).enumerate() {
        let packet = rtp_types::RtpPacket::parse(packet).unwrap();
        assert_eq!(packet.sequence_number(), RUN.first.sequence.wrapping_add(index as u16));
        read.extend_from_slice(packet.payload());
    }
    assert!(read == payload);
}

#[test]
fn files_are_made_once_and_damaged_ones_again() {
    let folder = tempfile::tempdir().unwrap();
    let inode = || {
        use std::os::unix::fs::MetadataExt;
        drop(Media::open(&options(folder.path()), 1, 2048, &mut NoProgress).unwrap());
        std::fs::metadata(make::name(folder.path(), Content::Payload, 3 << 20)).unwrap().ino()
    };
    let first = inode();
    assert_eq!(inode(), first);
    std::fs::write(make::name(folder.path(), Content::Payload, 3 << 20), "cut short").unwrap();
    assert_eq!(Media::open(&options(folder.path()), 1, 2048, &mut NoProgress).unwrap().length(), 3 << 20);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Promise: Test files are kept for one length at a time; the assessment removes no other files.
#[test]
fn a_little_more_memory_makes_no_other_file() {
    assert_eq!(
        [0, 1 << 20, (1 << 21) - 1, 700 << 20, 1 << 30].map(power_of_two),
        [1 << 20, 1 << 20, 1 << 20, 512 << 20, 1 << 30]
    );
}

/// Promise: A size that cannot be sent is refused with a clear error.
#[test]
fn what_cannot_be_sent_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    std::fs::write(&small, [7; 2047]).unwrap();
    let refused = |file: &Path| {
        let options = Options { file: Some(file.to_owned()), ..options(folder.path()) };
        Media::open(&options, 1, 2048, &mut NoProgress).err().expect("it is refused").to_string()
    };
    for (file, why) in [
        (folder.path().join("missing"), "No such file"),
        (folder.path().to_owned(), "is a directory"),
        (small, "2047 bytes"),
        ("/dev/null".into(), "not a regular file"),
    ] {
        let error = refused(&file);
        assert!(error.contains(why) && error.contains(&file.display().to_string()), "{error}");
    }
}

/// Progress that requests a stop immediately: an unfinished file is removed.
struct Stops;

impl Progress for Stops {
    fn at(&mut self, _: f64, _: &str) {}
    fn note(&mut self, _: &str) {}
    fn stopped(&self) -> bool {
        true
    }
}

#[test]
fn making_stops_when_asked_to_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { volume: 32 << 20, ..options(folder.path()) };
    assert!(matches!(Media::open(&options, 1, 2048, &mut Stops), Err(Error::Stopped)));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Promise: With a warm cache, all pages are mapped before a run, so no run takes the page faults.
#[test]
fn a_warm_file_is_mapped_before_it_is_sent() {
    use wirepath_datapath::{BlockPath, BlockSink};
    let folder = tempfile::tempdir().unwrap();
    let mut media = Media::open(&options(folder.path()), 1, 2048, &mut NoProgress).unwrap();
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(receiver.local_addr().unwrap()).unwrap();
    let sink = BlockSink::udp(socket, 1024, BlockPath::MmapSend).unwrap();
    let mut scratch = SendContext::default();
    let medium = media.prepared(Content::Payload).unwrap();
    let faults = || {
        // Tenth field of the thread's line, eighth after the name (proc(5)).
        let line = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        line.rsplit_once(')').unwrap().1.split_whitespace().nth(7).unwrap().parse::<u64>().unwrap()
    };
    let mut send_all = || {
        let before = faults();
        for offset in (0..3 << 20).step_by(4096) {
            let extent = Extent { offset, length: 1024 };
            BlockPath::MmapSend.send(&sink, medium, extent, &mut scratch).unwrap();
        }
        faults() - before
    };
    // Buffers of the loop may fault occasionally; pages of a mapping would fault by the dozen, even sixteen
    // at a time.
    assert!(send_all() < 24, "pages were not mapped");
}

#[test]
fn memory_holds_what_a_ring_copies_too() {
    use crate::result::Transport;
    use crate::subject::PathKind;
    use wirepath_datapath::DataPath;
    let case = |path, size| Case::new(PathKind::Stream(path), Transport::Udp, Some(size));
    assert_eq!(copies_in_memory(&[case(DataPath::ReadWritev, 512), case(DataPath::GsoWritev, 1024)]), 1);
    assert_eq!(copies_in_memory(&[case(DataPath::WireSendfile, 512), case(DataPath::WireSendfile, 1024)]), 3);
    assert_eq!(copies_in_memory(&[case(DataPath::WireSendfile, 512), case(DataPath::WireUring, 512)]), 3);
}

/// Promise: A file shorter than the volume is reported, with its length.
#[test]
fn a_file_shorter_than_the_volume_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own");
    std::fs::write(&file, [7; 10_000]).unwrap();
    let told = |options: &Options| {
        let (mut result, mut progress) = (crate::example::nothing(), NoProgress);
        result.left_out.clear();
        let mut found = Findings::new(&mut result, &mut progress);
        Media::open(options, 1, 2048, &mut found).unwrap().explain(options, &mut found);
        result.left_out
    };
    let options = options(folder.path());
    assert_eq!(told(&options), []);
    let short = told(&Options { file: Some(file), ..options });
    assert!(short[0].what.contains("3145728") && short[0].why.contains("10000 bytes"), "{short:?}");
}

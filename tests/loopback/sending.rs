//! `wirepath send`: files and playlists that go to receivers who did not ask for them.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use tempfile::TempDir;
use wirepath_tests::loss::unless_overloaded;
use wirepath_tests::process::Process;
use wirepath_tests::rtp::{Received, Receiver};
use wirepath_tests::{Deadline, clips, frames, process, server, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        every_byte_arrives_in_plain_udp,
        every_byte_of_192_byte_packets_arrives_in_plain_udp,
        numbers_go_on_over_the_joints_of_a_loop,
        an_interrupted_sender_says_goodbye,
        a_receiver_that_does_not_listen_yet_misses_only_the_beginning,
        a_group_is_received_with_its_description,
        ffmpeg_plays_a_movie_by_the_description => || unless_overloaded(ffmpeg_plays_a_movie_by_the_description),
        ffmpeg_plays_three_loops_of_a_transport_stream => || unless_overloaded(ffmpeg_plays_three_loops_of_a_transport_stream),
        ffmpeg_plays_a_list_of_different_encodes => || unless_overloaded(ffmpeg_plays_a_list_of_different_encodes),
        ffmpeg_plays_two_loops_of_a_movie => || unless_overloaded(ffmpeg_plays_two_loops_of_a_movie),
        a_playlist_plays_in_order,
        a_playlist_is_read_again_at_the_next_joint,
        a_file_that_is_overwritten_ends_no_channel,
        channels_of_a_file_are_sent_at_once,
        missing_files_of_a_list_are_left_out,
        what_cannot_be_sent_is_refused,
    ]
}

/// Port of a socket that is closed again: nobody else takes it soon.
fn free_pair() -> Result<u16> {
    Receiver::bind(Ipv4Addr::LOCALHOST.into())?.port()
}

/// A sender, and its cache.
struct Sender {
    process: Process,
    _cache: TempDir,
}

impl Sender {
    /// Starts to send, and waits until it says that it does.
    fn start<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> Result<Sender> {
        let cache = tempfile::tempdir()?;
        let mut process = Process::start(&command(&cache, arguments)?, false)?;
        let mut line = String::new();
        BufReader::new(process.take_stdout()?).read_line(&mut line)?;
        ensure!(line.starts_with("ready "), "{line:?}: {}", process.log());
        Ok(Sender { process, _cache: cache })
    }

    fn interrupt(&mut self) -> Result<()> {
        self.process.signal(Signal::INT)?;
        let status = self.process.wait(Deadline::seconds(10.0))?;
        ensure!(status.success(), "{status}: {}", self.process.log());
        Ok(())
    }

    fn end(&mut self, seconds: f64) -> Result<()> {
        let status = self.process.wait(Deadline::seconds(seconds))?;
        ensure!(status.success(), "{status}: {}", self.process.log());
        Ok(())
    }
}

fn command<S: AsRef<str>>(cache: &TempDir, arguments: impl IntoIterator<Item = S>) -> Result<Command> {
    let mut command = Command::new(server::binary()?);
    command.args(["send", "--threads", "1", "--cache"]).arg(cache.path());
    command.args(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
    Ok(command)
}

/// Error of a sender that does not start.
fn refusal<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> Result<String> {
    let output = command(&tempfile::tempdir()?, arguments)?.output()?;
    ensure!(!output.status.success(), "it was sent");
    Ok(String::from_utf8(output.stderr)?)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a file's name")
}

/// Datagrams that come until a sender ends, and a moment longer.
fn datagrams_of(sender: &mut Sender, socket: &UdpSocket) -> Result<Vec<Vec<u8>>> {
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    let (mut datagrams, mut buffer) = (Vec::new(), [0; 2048]);
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => datagrams.push(buffer[..length].to_vec()),
            Err(_) if !sender.process.is_running()? => return Ok(datagrams),
            Err(_) => {}
        }
    }
}

/// Promise: Plain UDP has every byte of a transport stream, seven packets in a datagram, and ends with the
/// stream.
fn every_byte_arrives_in_plain_udp() -> Result<()> {
    plain_udp(&clips::constant(3)?, &std::fs::read(clips::constant(3)?)?)
}

/// Promise: The time prefixes of 192-byte packets are not sent.
fn every_byte_of_192_byte_packets_arrives_in_plain_udp() -> Result<()> {
    let clip = clips::timestamped(3)?;
    let bytes = std::fs::read(&clip)?;
    plain_udp(&clip, &bytes.chunks(192).flat_map(|packet| packet[4..].to_vec()).collect::<Vec<u8>>())
}

fn plain_udp(clip: &Path, expected: &[u8]) -> Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let to = format!("udp://{}", socket.local_addr()?);
    let mut sender = Sender::start([text(clip)?, "--to", &to])?;
    let datagrams = datagrams_of(&mut sender, &socket)?;
    let wrong = datagrams.iter().position(|datagram| datagram.len() > 1316 || datagram.len() % 188 != 0);
    ensure!(wrong.is_none(), "datagram {wrong:?} has no whole packets");
    let full = datagrams.iter().filter(|datagram| datagram.len() == 1316).count();
    ensure!(full * 10 >= datagrams.len() * 9, "{full} of {} datagrams are full", datagrams.len());
    let came = datagrams.concat();
    ensure!(came == expected, "{} bytes came, {} are stored", came.len(), expected.len());
    Ok(())
}

/// Promise: A loop has no gap in bytes, numbers and times, and its sender reports keep to the clock.
fn numbers_go_on_over_the_joints_of_a_loop() -> Result<()> {
    let clip = clips::constant(2)?;
    let stored = std::fs::read(&clip)?;
    let receiver = Receiver::bind(Ipv4Addr::LOCALHOST.into())?;
    let to = format!("rtp://127.0.0.1:{}", receiver.port()?);
    let mut sender = Sender::start([text(&clip)?, "--loop", "--to", &to])?;
    let wanted = 3 * stored.len() + 100_000;
    let received = receiver.wait_for("three loops", Deadline::seconds(20.0), |received| {
        received.payload.len() >= wanted && received.reports.len() >= 2
    })?;
    sender.interrupt()?;
    ensure!(received.gaps().is_empty(), "{:?}", received.gaps());
    let differs =
        received.payload.iter().zip(stored.iter().cycle()).position(|(came, stored)| came != stored);
    ensure!(differs.is_none(), "byte {differs:?} differs");
    let packets = &received.packets;
    for pair in packets.windows(2) {
        let ticks = pair[1].timestamp.wrapping_sub(pair[0].timestamp);
        ensure!(ticks < 9_000, "{ticks} ticks from {} to {}", pair[0].sequence, pair[1].sequence);
        ensure!(pair[0].ssrc == pair[1].ssrc, "another source");
    }
    // Three loops of two seconds.
    let (first, last) = (&packets[0], &packets[packets.len() - 1]);
    let media = f64::from(last.timestamp.wrapping_sub(first.timestamp)) / 90_000.0;
    ensure!((media - received.seconds()).abs() < 0.25, "{media} s of media in {} s", received.seconds());
    // A report tells the time of the packets that come with it.
    for report in &received.reports {
        let near = packets.iter().min_by_key(|packet| {
            packet.arrival.max(report.arrival).duration_since(packet.arrival.min(report.arrival))
        });
        let late = report.timestamp.wrapping_sub(near.context("packets")?.timestamp) as i32;
        ensure!(late.abs() < 27_000, "a report is {late} ticks from its packets");
        ensure!(report.ssrc == first.ssrc, "a report of another source");
    }
    Ok(())
}

/// Promise: An interrupted sender sends BYE for each stream.
fn an_interrupted_sender_says_goodbye() -> Result<()> {
    let receiver = Receiver::bind(Ipv4Addr::LOCALHOST.into())?;
    let to = format!("rtp://127.0.0.1:{}", receiver.port()?);
    let mut sender = Sender::start([text(&clips::constant(10)?)?, "--to", &to])?;
    receiver.wait_for("packets", Deadline::seconds(10.0), |received| received.packets.len() > 20)?;
    sender.interrupt()?;
    receiver.wait_for("BYE", Deadline::seconds(5.0), |received| received.bye.is_some())?;
    Ok(())
}

/// Promise: A closed destination port does not end a sender; a receiver that opens the port gets the rest.
fn a_receiver_that_does_not_listen_yet_misses_only_the_beginning() -> Result<()> {
    let port = free_pair()?;
    let to = format!("udp://127.0.0.1:{port}");
    let (folder, clip) = (tempfile::tempdir()?, clips::constant(4)?);
    let json = folder.path().join("sent.json");
    let mut sender = Sender::start([text(&clip)?, "--to", &to, "--json", text(&json)?])?;
    let before = UdpSocket::bind("127.0.0.1:0")?; // any other; the port stays closed for half a second
    before.set_read_timeout(Some(Duration::from_millis(500)))?;
    ensure!(before.recv(&mut [0]).is_err(), "nothing is sent there");
    let socket = UdpSocket::bind(("127.0.0.1", port))?;
    let came = datagrams_of(&mut sender, &socket)?.concat();
    let stored = std::fs::read(&clip)?;
    ensure!(came.len() > stored.len() / 2 && stored.ends_with(&came), "{} bytes came", came.len());
    let sent: serde_json::Value = serde_json::from_slice(&std::fs::read(&json)?)?;
    let output = &sent["channels"][0]["outputs"][0];
    ensure!(output["packets_lost"].as_u64().is_some_and(|lost| lost > 0), "{sent:#}");
    Ok(())
}

/// Promise: A file that is overwritten during sending loses packets, and its channel continues.
fn a_file_that_is_overwritten_ends_no_channel() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (clip, json) = (folder.path().join("clip.ts"), folder.path().join("sent.json"));
    let stored = std::fs::read(clips::constant(3)?)?;
    std::fs::write(&clip, &stored)?;
    let receiver = Receiver::bind(Ipv4Addr::LOCALHOST.into())?;
    let to = format!("rtp://127.0.0.1:{}", receiver.port()?);
    let mut sender = Sender::start([text(&clip)?, "--loop", "--to", &to, "--json", text(&json)?])?;
    receiver.wait_for("packets", Deadline::seconds(10.0), |received| received.packets.len() > 50)?;
    std::fs::File::create(&clip)?; // the same file, without a byte
    Deadline::seconds(15.0).wait_for("the loss in the log", || {
        ensure!(sender.process.is_running()?, "it ended: {}", sender.process.log());
        Ok(sender.process.log().contains("packets are lost").then_some(()))
    })?;
    std::fs::write(&clip, &stored)?;
    let before = receiver.received().payload.len();
    let again = |received: &Received| received.payload.len() >= before + 2 * stored.len();
    receiver.wait_for("two loops more", Deadline::seconds(30.0), again)?;
    sender.interrupt()?;
    let sent: serde_json::Value = serde_json::from_slice(&std::fs::read(&json)?)?;
    let lost = sent["channels"][0]["outputs"][0]["packets_lost"].as_u64();
    ensure!(lost.is_some_and(|lost| lost > 0), "{sent:#}");
    Ok(())
}

/// Promise: A sender sends to a group by `--interface`, describes it with its time to live, and announces it
/// until the end.
fn a_group_is_received_with_its_description() -> Result<()> {
    let (folder, clip) = (tempfile::tempdir()?, clips::constant(2)?);
    let sdp = folder.path().join("group.sdp");
    let group = Ipv4Addr::new(239, 255, 76, 1);
    let socket = UdpSocket::bind((group, 0))?;
    socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST)?;
    let port = socket.local_addr()?.port();
    let pair = (port & !1) + 2; // an even port beside it
    let (plain, rtp) = (format!("udp://{group}:{port}?ttl=3"), format!("rtp://{group}:{pair}?ttl=4"));
    let announced = Ipv4Addr::new(239, 255, 255, 255); // SAP (RFC 2974)
    let announcements = UdpSocket::bind((announced, 9875))?;
    announcements.join_multicast_v4(&announced, &Ipv4Addr::LOCALHOST)?;
    announcements.set_read_timeout(Some(Duration::from_secs(5)))?;
    let to = ["--to", &plain, "--to", &rtp, "--interface", "127.0.0.1", "--sdp", text(&sdp)?, "--sap"];
    let mut sender = Sender::start([&[text(&clip)?][..], &to].concat())?;
    let came = datagrams_of(&mut sender, &socket)?.concat();
    let stored = std::fs::read(&clip)?;
    ensure!(came == stored, "{} of {} bytes came", came.len(), stored.len());
    let description = std::fs::read_to_string(&sdp)?;
    let mut packet = [0; 2048];
    for flags in [0x20, 0x24] {
        let length = announcements.recv(&mut packet).context("an announcement, and its deletion")?;
        ensure!(packet[0] == flags && packet[4..8] == [127, 0, 0, 1], "{:?}", &packet[..8]);
        let payload = packet[8..length].strip_prefix(b"application/sdp\0").context("a type")?;
        ensure!(description.as_bytes().starts_with(payload), "{}", String::from_utf8_lossy(payload));
    }
    ensure!(description.contains(&format!("c=IN IP4 {group}/4\r\n")), "{description}");
    ensure!(
        description.contains(&format!("m=video {pair} RTP/AVP 33\r\n")) && description.contains("MP2T/90000"),
        "{description}"
    );
    Ok(())
}

/// ffmpeg's options for a description in a file, and for a receiver that is there before the sender.
const BY_DESCRIPTION: [&str; 6] =
    ["-protocol_whitelist", "file,udp,rtp", "-reorder_queue_size", "0", "-buffer_size", "4000000"];

/// A description of what `asset` is sent as to a free port, and that destination: by a sender that is stopped.
fn described(asset: &Path, folder: &Path) -> Result<(PathBuf, String)> {
    let (sdp, to) = (folder.join("sent.sdp"), format!("rtp://127.0.0.1:{}", free_pair()?));
    Sender::start([text(asset)?, "--to", &to, "--sdp", text(&sdp)?])?.interrupt()?;
    Ok((sdp, to))
}

/// Waits until a process of this machine receives at the port of a destination.
fn wait_for_receiver(to: &str) -> Result<()> {
    let port: u16 = to.rsplit(':').next().context("a port")?.parse()?;
    let deadline = Deadline::seconds(20.0);
    let hex = format!(":{port:04X} ");
    while !std::fs::read_to_string("/proc/net/udp")?.contains(&hex) {
        ensure!(!deadline.left().is_zero(), "nobody receives at port {port}");
        std::thread::yield_now();
    }
    Ok(())
}

/// Frames that ffmpeg decodes by a description of what is then sent with these arguments.
fn decoded(sdp: &Path, to: &str, arguments: &[&str], seconds: f64) -> Result<Vec<Vec<frames::Frame>>> {
    let (sdp, to) = (text(sdp)?.to_owned(), to.to_owned());
    let limit = format!("{seconds}");
    std::thread::scope(|scope| {
        let receiving = scope.spawn(move || {
            let options = [&BY_DESCRIPTION[..], &["-t", &limit]].concat();
            frames::decode(&options, &sdp, 60.0)
        });
        wait_for_receiver(&to)?;
        let mut sender = Sender::start(arguments)?;
        let frames = receiving.join().map_err(|_| anyhow::anyhow!("the receiver panicked"))?;
        sender.interrupt()?;
        frames
    })
}

/// Promise: ffmpeg plays picture and sound of a movie by the session description, as stored.
fn ffmpeg_plays_a_movie_by_the_description() -> Result<()> {
    let (folder, clip) = (tempfile::tempdir()?, clips::film(6, "libx264", "aac", "mp4")?);
    let (sdp, to) = described(&clip, folder.path())?;
    let came = decoded(&sdp, &to, &[text(&clip)?, "--loop", "--to", &to], 5.0)?;
    let stored = frames::decode(&[], text(&clip)?, 60.0)?;
    for (came, stored) in came.iter().zip(&stored) {
        let equal = came.iter().filter(|came| stored.iter().any(|stored| stored.hash == came.hash)).count();
        ensure!(came.len() >= 100 && equal + 2 >= came.len(), "{equal} of {} frames are stored", came.len());
    }
    Ok(())
}

/// Promise: ffmpeg plays three loops of a transport stream in plain UDP with increasing times.
fn ffmpeg_plays_three_loops_of_a_transport_stream() -> Result<()> {
    let to = format!("udp://127.0.0.1:{}", free_pair()?);
    ffmpeg_plays_loops(&clips::constant(2)?, &[], &format!("{to}?buffer_size=4000000"), &to, (3, 2.0))
}

/// Promise: ffmpeg plays two loops of a movie with increasing times.
fn ffmpeg_plays_two_loops_of_a_movie() -> Result<()> {
    let (folder, clip) = (tempfile::tempdir()?, clips::film(3, "libx264", "aac", "mp4")?);
    let (sdp, to) = described(&clip, folder.path())?;
    ffmpeg_plays_loops(&clip, &BY_DESCRIPTION, text(&sdp)?, &to, (2, 3.0))
}

/// Promise: `wirepath send` sends movies of different picture sizes and profiles as one stream that ffmpeg decodes.
fn ffmpeg_plays_a_list_of_different_encodes() -> Result<()> {
    let [large, small] = clips::different_encodes(3, "libx264", "mp4")?;
    let folder = clips::folder(&[("large.mp4", &large), ("small.mp4", &small)])?;
    let list = folder.path().join("films.m3u");
    std::fs::write(&list, "large.mp4\nsmall.mp4\n")?;
    let (sdp, to) = described(&large, folder.path())?;
    let input = text(&sdp)?;
    let sizes = std::thread::scope(|scope| {
        let receiving = scope.spawn(move || frames::sizes(&BY_DESCRIPTION, input, Some(5.5), 60.0));
        wait_for_receiver(&to)?;
        let mut sender = Sender::start([text(&list)?, "--loop", "--to", &to])?;
        let sizes = receiving.join().map_err(|_| anyhow::anyhow!("the receiver panicked"))?;
        sender.interrupt()?;
        sizes
    })?;
    ensure!(sizes.len() == 2 && sizes[0] == (640, 360, 75) && sizes[1].0 == 320, "{sizes:?}");
    ensure!((50..=75).contains(&sizes[1].2), "{sizes:?}");
    Ok(())
}

/// Receives so many loops of a clip of a length with ffmpeg, as a person would: without `-copyts`.
fn ffmpeg_plays_loops(
    clip: &Path,
    options: &[&str],
    input: &str,
    to: &str,
    (count, length): (u32, f64),
) -> Result<()> {
    let (name, seconds) = (text(clip)?, format!("{}", f64::from(count) * length - 0.5));
    let behind = ["-t", &seconds, "-map", "0:v:0", "-fps_mode", "passthrough", "-f", "framemd5", "-"];
    let arguments = [&["-nostdin", "-v", "error"][..], options, &["-i", input], &behind].concat();
    let printed = std::thread::scope(|scope| {
        let receiving = scope.spawn(move || process::run("ffmpeg", arguments, 60.0));
        wait_for_receiver(to)?;
        let mut sender = Sender::start([name, "--loop", "--to", to])?;
        let printed = receiving.join().map_err(|_| anyhow::anyhow!("the receiver panicked"))?;
        sender.interrupt()?;
        printed
    })?;
    let pictures = frames::parse(&printed)?.into_iter().next().context("no pictures")?;
    ensure!(pictures.is_sorted_by(|one, two| one.seconds < two.seconds), "times do not go on: {printed}");
    let stored = frames::decode(&[], name, 60.0)?.into_iter().next().context("no pictures")?;
    let known = pictures.iter().filter(|came| stored.iter().any(|stored| stored.hash == came.hash)).count();
    let expected = (f64::from(count) * length - 1.0) * 25.0;
    ensure!(pictures.len() as f64 >= expected, "{} pictures of {expected}", pictures.len());
    // At a joint a decoder may show a picture again, or leave one out.
    ensure!(known + 4 >= pictures.len(), "{known} of {} pictures are stored", pictures.len());
    let first = stored.first().context("a picture")?;
    let begins = pictures.iter().filter(|came| came.hash == first.hash).count();
    ensure!(begins as u32 + 1 >= count, "{begins} loops of {count} begin");
    Ok(())
}

/// Promise: A playlist plays in order as one stream.
fn a_playlist_plays_in_order() -> Result<()> {
    let (one, two) = (clips::constant(2)?, clips::constant(3)?);
    let folder = clips::folder(&[("one.ts", &one), ("two.ts", &two)])?;
    let list = folder.path().join("news.m3u");
    std::fs::write(&list, "#EXTM3U\n#EXTINF:2,First\none.ts\ntwo.ts\n")?;
    let receiver = Receiver::bind(Ipv4Addr::LOCALHOST.into())?;
    let to = format!("rtp://127.0.0.1:{}", receiver.port()?);
    let mut sender = Sender::start([text(&list)?, "--to", &to])?;
    sender.end(20.0)?;
    let received = receiver.wait_for("BYE", Deadline::seconds(5.0), |received| received.bye.is_some())?;
    ensure!(received.gaps().is_empty(), "{:?}", received.gaps());
    ensure!(received.payload == [std::fs::read(one)?, std::fs::read(two)?].concat(), "bytes differ");
    Ok(())
}

/// Promise: SIGHUP reads a playlist again, for use from the next item on; an invalid playlist is ignored.
fn a_playlist_is_read_again_at_the_next_joint() -> Result<()> {
    let (one, two) = (clips::constant(2)?, clips::variable(2)?);
    let folder = clips::folder(&[("one.ts", &one), ("two.ts", &two)])?;
    let list = folder.path().join("news.toml");
    std::fs::write(&list, "assets = [\"one.ts\"]\nloop = true\n")?;
    let receiver = Receiver::bind(Ipv4Addr::LOCALHOST.into())?;
    let to = format!("rtp://127.0.0.1:{}", receiver.port()?);
    let mut sender = Sender::start([text(&list)?, "--to", &to])?;
    let (one, two) = (std::fs::read(one)?, std::fs::read(two)?);
    receiver.wait_for("packets", Deadline::seconds(10.0), |received| !received.packets.is_empty())?;
    std::fs::write(&list, "assets = 3\n")?;
    sender.process.signal(Signal::HUP)?;
    receiver.wait_for("a loop", Deadline::seconds(10.0), |received| {
        received.payload.len() > one.len() + 100_000
    })?;
    std::fs::write(&list, "assets = [\"one.ts\", \"two.ts\"]\n")?;
    sender.process.signal(Signal::HUP)?;
    sender.end(20.0)?;
    let received = receiver.wait_for("BYE", Deadline::seconds(5.0), |received| received.bye.is_some())?;
    ensure!(received.gaps().is_empty(), "{:?}", received.gaps());
    ensure!(received.payload.starts_with(&[&one[..], &one].concat()), "the first loops differ");
    ensure!(received.payload.ends_with(&two), "the new asset was not sent last");
    ensure!(sender.process.log().contains("the playlist is unchanged"), "{}", sender.process.log());
    Ok(())
}

/// Promise: One process sends many channels of a configuration file.
fn channels_of_a_file_are_sent_at_once() -> Result<()> {
    let (one, two) = (clips::constant(2)?, clips::variable(2)?);
    let folder = clips::folder(&[("one.ts", &one), ("two.ts", &two)])?;
    let receivers =
        [Receiver::bind(Ipv4Addr::LOCALHOST.into())?, Receiver::bind(Ipv4Addr::LOCALHOST.into())?];
    let table = |name: &str, receiver: &Receiver| -> Result<String> {
        let port = receiver.port()?;
        Ok(format!("[{name}]\nassets = [\"{name}.ts\"]\nto = [\"rtp://127.0.0.1:{port}\"]\n"))
    };
    let file = folder.path().join("channels.toml");
    std::fs::write(&file, table("one", &receivers[0])? + &table("two", &receivers[1])?)?;
    let mut sender = Sender::start(["--config", text(&file)?])?;
    sender.end(20.0)?;
    for (receiver, clip) in receivers.iter().zip([one, two]) {
        let received = receiver.wait_for("BYE", Deadline::seconds(5.0), |received| received.bye.is_some())?;
        ensure!(received.payload == std::fs::read(clip)?, "{} bytes came", received.payload.len());
    }
    Ok(())
}

/// Promise: A sender sends what exists of a list, and warns about the rest.
fn missing_files_of_a_list_are_left_out() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder = clips::folder(&[("one.ts", &clip)])?;
    let list = folder.path().join("news.m3u");
    std::fs::write(&list, "missing.ts\none.ts\nlost.ts\n")?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let to = format!("udp://{}", socket.local_addr()?);
    let mut sender = Sender::start([text(&list)?, "--to", &to])?;
    let came = datagrams_of(&mut sender, &socket)?.concat();
    ensure!(came == std::fs::read(&clip)?, "{} bytes came", came.len());
    let log = sender.process.log();
    ensure!(log.contains("news.m3u:1: cannot send") && log.contains("news.m3u:3: cannot send"), "{log}");
    Ok(())
}

/// Promise: A sender refuses movies in plain UDP, lists without an existing file and invalid lists, with the
/// reason and the line.
fn what_cannot_be_sent_is_refused() -> Result<()> {
    let (movie, folder) = (clips::film(3, "libx264", "aac", "mp4")?, tempfile::tempdir()?);
    let error = refusal([text(&movie)?, "--to", "udp://127.0.0.1:5004"])?;
    ensure!(error.contains("plain UDP takes transport streams only; use rtp://"), "{error}");
    let tracks = folder.path().join("tracks.toml");
    std::fs::write(&tracks, format!("assets = [{:?}]\ndemux = true\n", text(&clips::constant(2)?)?))?;
    let error = refusal([text(&tracks)?, "--to", "udp://127.0.0.1:5004"])?;
    ensure!(error.contains("plain UDP takes transport streams only; use rtp://"), "{error}");
    let error = refusal(["missing.ts", "--to", "udp://127.0.0.1:5004"])?;
    ensure!(error.contains("cannot send missing.ts: No such file"), "{error}");
    let list = folder.path().join("news.m3u");
    std::fs::write(&list, "#EXTM3U\nmissing.ts\n")?;
    let error = refusal([text(&list)?, "missing.ts", "--to", "udp://127.0.0.1:5004"])?;
    ensure!(error.contains("none of 2 assets can be sent; the first:"), "{error}");
    ensure!(error.contains("news.m3u:2: cannot send") && error.contains("missing.ts"), "{error}");
    let error = refusal([text(&movie)?, "--to", "rtp://127.0.0.1:5005"])?;
    ensure!(error.contains("port 5005 is odd"), "{error}");
    let clip = clips::constant(2)?;
    let error = refusal([text(&clip)?, "--to", "udp://127.0.0.1:5004", "--to", "rtp://127.0.0.1:5004"])?;
    ensure!(
        error.contains("udp://127.0.0.1:5004 of channel") && error.contains("uses port 5004,"),
        "{error}"
    );
    ensure!(
        error.contains("rtp://127.0.0.1:5004 of channel") && error.contains("uses ports 5004 to 5005;"),
        "{error}"
    );
    let error = refusal([text(&movie)?, "--to", "rtp://127.0.0.1:5004", "--to", "rtp://127.0.0.1:5006"])?;
    ensure!(
        error.contains("uses ports 5004 to 5007,") && error.contains("uses ports 5006 to 5009;"),
        "{error}"
    );
    let error = refusal([text(&clip)?, "--to", "udp://127.0.0.1:5004", "--burst", "2s"])?;
    ensure!(error.contains("--burst"), "{error}");
    Ok(())
}

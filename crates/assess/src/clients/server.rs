//! Servers under test: `wirepath serve`, and peers started by a command.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::case::{ClientCase, MediaTransport, Processors};
use super::media::Media;
use super::options::{ClientOptions, Peer};
use crate::error::{Doing, Error};
use crate::relay::{MeasuredProcess, ProcessorTime, own_program};
use crate::test_bed::ClientBed;

/// Port of every server, for RTSP or HTTP; further processes use the following ports.
const PORT: u16 = 8554;

/// Distance from the port for RTSP to that for HTTP of the same process. There are fewer processes than that.
const TO_HTTP: u16 = 1_000;

/// Timeout for a server's answer to DESCRIBE or HEAD.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time for the server to measure its data paths.
const CALIBRATION: Duration = Duration::from_secs(20);

/// Interval between attempts.
const AGAIN: Duration = Duration::from_millis(50);

/// Longest response with metrics, in bytes.
const LONGEST_METRICS: u64 = 4 << 20;

/// Default limits of `wirepath serve`, which are raised for more sessions.
const USUAL_SESSIONS: usize = 10_000;
const USUAL_CONNECTIONS: usize = 20_000;

/// Sessions and connections in addition to those of a step.
const SPARE: usize = 64;

/// Server under test.
#[derive(Clone, Debug)]
pub(crate) enum Contestant {
    /// `wirepath serve`.
    Wirepath,
    /// Peer.
    Peer(Peer),
}

/// Running server.
pub(crate) struct Server {
    /// Processes, which share the server's processors.
    processes: Vec<MeasuredProcess>,
    /// URLs of the assets, for each asset at every process.
    pub(crate) urls: Vec<String>,
    /// Data path that `wirepath serve` chose, for packets over UDP.
    chosen_path: Option<String>,
    /// Addresses for the metrics of the processes of `wirepath serve`.
    metrics: Vec<SocketAddr>,
}

impl Server {
    /// Processor time of all processes.
    pub(crate) fn spent(&self) -> Result<ProcessorTime, Error> {
        let mut total = ProcessorTime::default();
        for process in &self.processes {
            total = total.plus(process.spent()?);
        }
        Ok(total)
    }

    /// Data path that sent most trains of `wirepath serve` over UDP; `None` for peers and other transports, and if a
    /// process gives no metrics, as one that has no descriptor left.
    pub(crate) fn data_path(&self, bed: &ClientBed) -> Option<String> {
        let chosen = self.chosen_path.as_ref()?;
        let mut sent = SentTrains::default();
        for address in &self.metrics {
            let metrics =
                bed.at_clients(|| get_metrics(*address).doing("reading the server's metrics")).ok()?;
            sent.add(&metrics)?;
        }
        Some(sent.path(chosen).to_owned())
    }

    /// Open files of the process that has most.
    pub(crate) fn descriptors(&self) -> Option<u64> {
        self.processes.iter().filter_map(MeasuredProcess::descriptors).max()
    }
}

impl Contestant {
    /// Name.
    pub(crate) fn name(&self) -> &str {
        match self {
            Contestant::Wirepath => "wirepath",
            Contestant::Peer(peer) => &peer.name,
        }
    }

    /// Starts the server for this number of clients, and waits until it answers for its first asset.
    ///
    /// # Errors
    /// [`Error::Unable`] if the server does not start, with the end of its log.
    pub(crate) fn start(
        &self,
        bed: &ClientBed,
        case: &ClientCase,
        media: &Media,
        clients: usize,
        options: &ClientOptions,
    ) -> Result<Server, Error> {
        let address = bed.server_address();
        let ports = (PORT..).take(if matches!(self, Contestant::Wirepath) { options.processes } else { 1 });
        let mut server =
            Server { processes: Vec::new(), urls: Vec::new(), chosen_path: None, metrics: Vec::new() };
        for port in ports {
            let log = options.scratch.join(format!("clients-{}-{port}.log", self.name()));
            let command = self.command(SocketAddr::new(address, port), case, media, clients, options)?;
            match self.start_process(bed, case, media, &logged(&command, &log), port) {
                Ok((process, urls)) => {
                    server.processes.push(process);
                    server.urls.extend(urls);
                    if matches!(self, Contestant::Wirepath) && case.transport == MediaTransport::Udp {
                        let said = std::fs::read_to_string(&log).unwrap_or_default();
                        server.chosen_path = chosen_path(&case.path, &said)?;
                        server.metrics.push(metrics_address(SocketAddr::new(address, port)));
                    }
                }
                Err(Error::Unable(why)) => return Err(Error::Unable(format!("{why}{}", end_of(&log)))),
                Err(error) => return Err(error),
            }
        }
        Ok(server)
    }

    fn command(
        &self,
        address: SocketAddr,
        case: &ClientCase,
        media: &Media,
        clients: usize,
        options: &ClientOptions,
    ) -> Result<Command, Error> {
        match self {
            Contestant::Wirepath => {
                Ok(wirepath(address, case, media, clients.div_ceil(options.processes), options))
            }
            Contestant::Peer(peer) => {
                let scratch = options.scratch.join(format!("clients-of-{}", peer.name));
                std::fs::create_dir_all(&scratch)
                    .map_err(|error| Error::of_file("make the folder", &scratch, error))?;
                let mut command = peer_command(peer, address, case, media);
                command.env("SCRATCH", scratch);
                Ok(command)
            }
        }
    }

    /// Starts a process, and waits until it answers; returns it with the URLs of its assets.
    fn start_process(
        &self,
        bed: &ClientBed,
        case: &ClientCase,
        media: &Media,
        command: &Command,
        port: u16,
    ) -> Result<(MeasuredProcess, Vec<String>), Error> {
        let address = SocketAddr::new(bed.server_address(), port);
        let process = bed.at_server(case.processors == Processors::All, || {
            wait_until_free(port)?;
            MeasuredProcess::program(self.name(), command, port)
        })?;
        let protocol = Protocol::of(case.transport);
        let url = |name: &String| format!("{}://{address}/{name}", protocol.scheme());
        let urls: Vec<String> = media.names.iter().map(url).collect();
        bed.at_clients(|| protocol.wait_until_ready(address, &urls[0]))?;
        Ok((process, urls))
    }
}

/// Output of `wirepath pack --json` for a file.
#[derive(Deserialize)]
struct Packed {
    image: PathBuf,
    duration_us: u64,
}

/// Makes an image of a single asset, or indexes of several assets; the server chooses what else to make.
pub(crate) fn pack(media: &mut Media) -> Result<(), Error> {
    let mut command = own_program();
    command.args(["pack", "--json", "--cache"]).arg(&media.images);
    if media.names.len() > 1 {
        command.arg("--index");
    }
    command.args(media.files());
    let output = command.output().doing("starting wirepath pack")?;
    let [told, said] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    if !output.status.success() {
        return Err(Error::Input(format!("wirepath pack failed: {} {}", said.trim(), told.trim())));
    }
    let files = told.lines().map(serde_json::from_str::<Packed>).collect::<Result<Vec<_>, _>>();
    let files =
        files.map_err(|error| Error::Faulty(format!("cannot read what wirepath pack says: {error}")))?;
    let shortest = files.iter().map(|file| file.duration_us).min().unwrap_or(0);
    media.seconds = shortest as f64 / 1e6;
    media.packed = files.into_iter().map(|file| file.image).collect();
    Ok(())
}

/// Makes `wirepath serve` measure its data paths if there is no calibration yet, because the server would
/// otherwise measure during the first steps.
pub(crate) fn calibrate(
    bed: &ClientBed,
    case: &ClientCase,
    media: &Media,
    options: &ClientOptions,
) -> Result<(), Error> {
    if options.calibration.exists() {
        return Ok(());
    }
    let _server = Contestant::Wirepath.start(bed, case, media, 1, options)?;
    let deadline = Instant::now() + CALIBRATION;
    while !options.calibration.exists() && Instant::now() < deadline {
        std::thread::sleep(AGAIN);
    }
    Ok(())
}

fn wirepath(
    address: SocketAddr,
    case: &ClientCase,
    media: &Media,
    clients: usize,
    options: &ClientOptions,
) -> Command {
    let mut command = own_program();
    command.arg("serve").arg(&media.folder);
    let (rtsp, http) = match Protocol::of(case.transport) {
        Protocol::Rtsp => (address, metrics_address(address)),
        Protocol::Http => (SocketAddr::new(address.ip(), 0), address),
    };
    command.args(["--rtsp", &rtsp.to_string(), "--http", &http.to_string()]);
    command.arg("--cache").arg(&media.images).arg("--calibration").arg(&options.calibration);
    command.args(["--burst", &case.burst_option(), "--path", &case.path]);
    // Admission would refuse sessions before the limit that the search looks for.
    if !names_admission(&options.server_arguments) {
        command.args(["--admission", "off"]);
    }
    if case.path == "wire_uring" {
        command.args(["--hot-memory", "512MiB"]);
    }
    let sessions = clients + SPARE;
    if sessions > USUAL_SESSIONS {
        command.args(["--max-sessions", &sessions.to_string()]);
    }
    if sessions > USUAL_CONNECTIONS {
        command.args(["--max-connections", &sessions.to_string()]);
    }
    command.args(&options.server_arguments);
    command
}

/// Address at which `wirepath serve` gives its metrics if it has this address for RTSP.
fn metrics_address(rtsp: SocketAddr) -> SocketAddr {
    SocketAddr::new(rtsp.ip(), rtsp.port() + TO_HTTP)
}

/// Returns whether arguments of `wirepath serve` configure admission.
fn names_admission(arguments: &[String]) -> bool {
    let name = |argument: &String| argument.split('=').next().map(str::to_owned).unwrap_or_default();
    arguments.iter().map(name).any(|name| ["--admission", "--reserve"].contains(&name.as_str()))
}

/// Command of a peer, which gets its task in environment variables.
fn peer_command(peer: &Peer, address: SocketAddr, case: &ClientCase, media: &Media) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &peer.command]);
    command.env("MEDIA", &media.folder);
    command.env("ASSET", &media.names[0]);
    command.env("ASSETS", media.names.len().to_string());
    command.env("ADDRESS", address.ip().to_string());
    command.env("PORT", address.port().to_string());
    command.env("BIT_RATE", format!("{:.0}", case.bits_per_second));
    command.env("TRANSPORT", case.transport.to_string().to_lowercase());
    command
}

/// Same command, with its output in a file.
fn logged(command: &Command, log: &Path) -> Command {
    let mut wrapped = Command::new("sh");
    wrapped.args(["-c", "exec \"$@\" >\"$WIREPATH_LOG\" 2>&1", "sh"]);
    wrapped.arg(command.get_program()).args(command.get_args());
    let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    wrapped.envs(variables).env("WIREPATH_LOG", log);
    wrapped
}

/// Data path that `wirepath serve` chose, from its log.
///
/// # Errors
/// [`Error::Unable`] if the server chose another path than the requested one, since the cost would not be
/// that of the requested path.
fn chosen_path(asked: &str, log: &str) -> Result<Option<String>, Error> {
    let Some((_, line)) = log.split_once("data path chosen ") else { return Ok(None) };
    let line = line.lines().next().unwrap_or_default();
    let chosen = line.split_once("path=").and_then(|(_, rest)| rest.split_whitespace().next());
    match chosen {
        Some(chosen) if asked != "auto" && asked != chosen => {
            let reason = line.split_once("reason=").map_or("", |(_, reason)| reason).trim_matches('"');
            Err(Error::Unable(format!("{asked} does not work here, wirepath serve uses {chosen}: {reason}")))
        }
        chosen => Ok(chosen.map(str::to_owned)),
    }
}

/// Trains that `wirepath serve` sent, by its metrics.
#[derive(Default)]
struct SentTrains {
    all: f64,
    /// Trains that left by io_uring.
    lent: f64,
    /// Trains of these that left from the mapping of an image.
    mapped: f64,
}

impl SentTrains {
    /// Adds the trains of a process; `None` if a metric is missing.
    fn add(&mut self, metrics: &str) -> Option<()> {
        let counter = |name: &str| {
            let name = format!("wirepath_playback_{name}_total ");
            metrics.lines().find_map(|line| line.strip_prefix(&name)?.trim().parse::<f64>().ok())
        };
        self.all += counter("trains")?;
        self.lent += counter("trains_lent")?;
        self.mapped += counter("trains_mapped")?;
        Some(())
    }

    /// Name of the path of most trains, if the chosen path sent those that did not leave by io_uring.
    fn path<'a>(&self, chosen: &'a str) -> &'a str {
        let others = if ["wire_uring", "wire_mapping"].contains(&chosen) { "other" } else { chosen };
        let paths = [
            (self.all - self.lent, others),
            (self.lent - self.mapped, "wire_uring"),
            (self.mapped, "wire_mapping"),
        ];
        let most = paths.into_iter().max_by(|(one, _), (other, _)| one.total_cmp(other));
        most.map_or(chosen, |(_, path)| path)
    }
}

/// Last lines of a log, as the end of a sentence.
fn end_of(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
    if lines.is_empty() {
        return String::new();
    }
    let lines: Vec<&str> = lines.into_iter().rev().collect();
    format!("; its log {} ends with: {}", log.display(), lines.join(" | "))
}

/// Waits until no connection of the previous server holds this port, in the namespace of the calling thread:
/// some servers cannot listen while one does. After a timeout it returns anyway.
fn wait_until_free(port: u16) -> Result<(), Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let table =
            std::fs::read_to_string("/proc/thread-self/net/tcp").doing("looking for sockets of a server")?;
        if !is_bound(&table, port) || Instant::now() > deadline {
            return Ok(());
        }
        std::thread::sleep(AGAIN);
    }
}

/// Searches a table of lines `sl local_address rem_address st …` for the port, in any state.
fn is_bound(table: &str, port: u16) -> bool {
    let local = format!(":{port:04X}");
    let address =
        |line: &str| line.split_whitespace().nth(1).is_some_and(|address| address.ends_with(&local));
    table.lines().any(address)
}

/// Protocol of the clients.
#[derive(Clone, Copy)]
enum Protocol {
    Rtsp,
    Http,
}

impl Protocol {
    fn of(transport: MediaTransport) -> Protocol {
        match transport {
            MediaTransport::Udp | MediaTransport::Tcp => Protocol::Rtsp,
            MediaTransport::Http => Protocol::Http,
        }
    }

    fn scheme(self) -> &'static str {
        match self {
            Protocol::Rtsp => "rtsp",
            Protocol::Http => "http",
        }
    }

    /// Waits until an asset is available.
    fn wait_until_ready(self, server: SocketAddr, url: &str) -> Result<(), Error> {
        let (method, request, status) = match self {
            Protocol::Rtsp => (
                "DESCRIBE",
                format!("DESCRIBE {url} RTSP/1.0\r\nCSeq: 1\r\nAccept: application/sdp\r\n\r\n"),
                "RTSP/1.0 200",
            ),
            Protocol::Http => {
                let path = url.splitn(4, '/').nth(3).unwrap_or_default();
                let head = format!("HEAD /{path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
                ("HEAD", head, "HTTP/1.1 200")
            }
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = match ask(server, &request) {
                Ok(answer) if answer.starts_with(status) => return Ok(()),
                Ok(answer) => answer.lines().next().unwrap_or("nothing").to_owned(),
                Err(error) => error.to_string(),
            };
            if Instant::now() > deadline {
                let seconds = PATIENCE.as_secs();
                return Err(Error::Unable(format!("{method} {url} got no 200 within {seconds} s: {answer}")));
            }
            std::thread::sleep(AGAIN);
        }
    }
}

/// Beginning of the response to a request.
fn ask(server: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = [0; 256];
    let length = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}

/// Response of a server with its metrics.
fn get_metrics(server: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(LONGEST_METRICS).read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: `assess clients` runs `wirepath serve` without admission, unless a server argument sets
    /// admission.
    #[test]
    fn arguments_of_admission_replace_ours() {
        let named = |argument: &str| names_admission(&[argument.to_owned()]);
        assert!(named("--admission=measured") && named("--admission") && named("--reserve=5%"));
        assert!(!named("--images=all") && !names_admission(&[]));
    }

    /// Promise: `assess clients` skips a data path that the server cannot use, and gives the reason.
    #[test]
    fn a_path_that_does_not_work_is_not_measured() {
        let log = "INFO listening\nINFO data path chosen path=gso_writev reason=\"no io_uring\"\nINFO next\n";
        assert_eq!(chosen_path("auto", log).unwrap().as_deref(), Some("gso_writev"));
        assert_eq!(chosen_path("gso_writev", log).unwrap().as_deref(), Some("gso_writev"));
        let other = chosen_path("wire_uring", log).unwrap_err().to_string();
        assert!(other.contains("wire_uring does not work here") && other.ends_with("no io_uring"), "{other}");
        assert_eq!(chosen_path("wire_uring", "INFO listening").unwrap(), None);
    }

    /// Promise: `assess clients` reports the data path that sent most trains of a step.
    #[test]
    fn the_path_of_most_trains_is_reported() {
        let metrics = |trains, lent, mapped| {
            let counters = [("trains", trains), ("trains_lent", lent), ("trains_mapped", mapped)];
            let line = |(name, value): (&str, u32)| format!("wirepath_playback_{name}_total {value}\n");
            format!("HTTP/1.1 200 OK\r\n\r\n# TYPE x counter\n{}", counters.map(line).concat())
        };
        let of_two = |first: &str, second: &str, chosen: &'static str| {
            let mut sent = SentTrains::default();
            sent.add(first).and_then(|()| sent.add(second)).map(|()| sent.path(chosen))
        };
        let of = |metrics: &str, chosen| of_two(metrics, metrics, chosen);
        assert_eq!(of(&metrics(9, 0, 0), "wire_sendfile"), Some("wire_sendfile"));
        assert_eq!(of(&metrics(9, 8, 7), "wire_sendfile"), Some("wire_mapping"));
        assert_eq!(of(&metrics(9, 8, 1), "wire_sendfile"), Some("wire_uring"));
        assert_eq!(of_two(&metrics(9, 9, 9), &metrics(90, 0, 0), "gso_writev"), Some("gso_writev"));
        assert_eq!(of(&metrics(9, 1, 1), "wire_mapping"), Some("other"), "the route stepped down");
        assert_eq!(of("HTTP/1.1 503 Busy\r\n\r\n", "wire_sendfile"), None);
    }

    #[test]
    fn a_connection_that_ends_holds_its_port() {
        let row = "  0: 0100510A:216A 0200510A:1F90 06 00000000:00000000";
        assert!(is_bound(row, 8554) && !is_bound(row, 8080), "the other end does not count");
    }
}

//! The server as a process: started like a user starts it, seen from outside.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, mpsc};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use wirepath_datapath::calibration::Host;

use crate::namespace::Namespace;
use crate::process::{self, Process};
use crate::{Deadline, http};

/// A running `wirepath serve`, killed when dropped.
pub struct Server {
    /// The process; its standard error is its log.
    pub process: Process,
    /// RTSP listen address.
    pub rtsp: SocketAddr,
    /// HTTP listen address.
    pub http: SocketAddr,
    /// Listen address of RTSP over TLS, if there is one.
    pub rtsps: Option<SocketAddr>,
    /// HTTPS listen address, if there is one.
    pub https: Option<SocketAddr>,
    /// Folder of its wire images, unless the test chose another one.
    pub cache: PathBuf,
    lines: Mutex<mpsc::Receiver<String>>,
    _own_cache: TempDir,
}

/// Options of a server to start.
pub struct Builder<'a> {
    paths: Vec<PathBuf>,
    arguments: Vec<String>,
    namespace: Option<&'a Namespace>,
    address: String,
    cache: Option<PathBuf>,
    is_packed: bool,
    before: Vec<String>,
}

impl Server {
    /// A server of this folder or file, on free ports of the loopback address and with a cache of its own.
    pub fn of<'a>(path: impl AsRef<Path>) -> Builder<'a> {
        Server::without_paths().and(path)
    }

    /// A server of what this configuration file names, otherwise as [`of`](Self::of).
    pub fn configured<'a>(file: &str) -> Builder<'a> {
        Server::without_paths().with(["--config", file])
    }

    fn without_paths<'a>() -> Builder<'a> {
        Builder {
            paths: Vec::new(),
            arguments: Vec::new(),
            namespace: None,
            address: "127.0.0.1".to_owned(),
            cache: None,
            is_packed: false,
            before: Vec::new(),
        }
    }

    /// The RTSP address of an asset; `path` as it stands in a URL.
    pub fn rtsp_url(&self, path: &str) -> String {
        format!("rtsp://{}/{path}", self.rtsp)
    }

    /// The HTTP address of an asset; `path` as it stands in a URL.
    pub fn http_url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.http)
    }

    /// `/api/status` of a server that this process can reach.
    pub fn status(&self) -> Result<serde_json::Value> {
        let response = http::get(self.http, "/api/status")?;
        ensure!(response.status == 200, "/api/status answered {}", response.status);
        serde_json::from_slice(&response.body).context("/api/status is not JSON")
    }

    /// Sessions that it has now, by its own account.
    pub fn sessions(&self) -> Result<usize> {
        let status = self.status()?;
        Ok(status["sessions"].as_array().with_context(|| format!("no sessions in {status}"))?.len())
    }

    /// Open descriptors.
    pub fn descriptors(&self) -> Result<usize> {
        process::descriptors(self.process.pid())
    }

    /// Resident memory in KiB.
    pub fn memory_kib(&self) -> Result<u64> {
        process::status_number(self.process.pid(), "VmRSS")
    }

    /// Memory of its own, that of no file, in KiB.
    pub fn anonymous_kib(&self) -> Result<u64> {
        process::status_number(self.process.pid(), "RssAnon")
    }

    /// Threads.
    pub fn threads(&self) -> Result<u64> {
        process::status_number(self.process.pid(), "Threads")
    }

    /// Lines printed on standard output after the one that said that it is ready.
    pub fn further_lines(&self) -> Vec<String> {
        self.lines.lock().expect("nothing panics holding it").try_iter().collect()
    }
}

impl<'a> Builder<'a> {
    /// Serves this, too.
    pub fn and(mut self, path: impl AsRef<Path>) -> Self {
        self.paths.push(path.as_ref().to_owned());
        self
    }

    /// Gives it further arguments.
    pub fn with<S: AsRef<str>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Has it started by another command, which is followed by its own.
    pub fn under<S: AsRef<str>>(mut self, command: impl IntoIterator<Item = S>) -> Self {
        self.before.extend(command.into_iter().map(|word| word.as_ref().to_owned()));
        self
    }

    /// Keeps wire images there.
    pub fn cache(mut self, folder: impl AsRef<Path>) -> Self {
        self.cache = Some(folder.as_ref().to_owned());
        self
    }

    /// Packs what it serves before it starts, so that all is sent from wire images.
    pub fn packed(mut self) -> Self {
        self.is_packed = true;
        self
    }

    /// Runs it in a network namespace, with its listeners on `address` there.
    pub fn inside(mut self, namespace: &'a Namespace, address: &str) -> Self {
        self.namespace = Some(namespace);
        address.clone_into(&mut self.address);
        self
    }

    /// Has it listen on another address than 127.0.0.1, as it stands in URLs.
    pub fn listening_on(mut self, address: &str) -> Self {
        address.clone_into(&mut self.address);
        self
    }

    /// Starts it and waits until it says that both listeners are ready.
    pub fn start(self) -> Result<Server> {
        let own_cache = tempfile::tempdir().context("making a cache folder")?;
        let cache = self.cache.clone().unwrap_or_else(|| own_cache.path().join("images"));
        let costs = own_cache.path().join("calibration.json");
        std::fs::write(&costs, calibration(&["wire_sendfile", "gso_writev", "sendmmsg", "read_writev"])?)
            .context("writing what data paths cost")?;
        if self.is_packed {
            let output =
                Command::new(binary()?).arg("pack").arg("--cache").arg(&cache).args(&self.paths).output()?;
            ensure!(output.status.success(), "packing: {}", String::from_utf8_lossy(&output.stderr));
        }
        let mut process = Process::start(&self.command(&cache, &costs)?, false)?;
        let lines = lines_of(process.take_stdout()?);
        let line = match lines.recv_timeout(Deadline::seconds(15.0).left()) {
            Ok(line) => line,
            Err(error) => {
                // Only when it has ended is its log whole.
                if error == mpsc::RecvTimeoutError::Disconnected {
                    process.wait(Deadline::seconds(5.0))?;
                }
                anyhow::bail!("the server did not get ready; its log:\n{}", process.log());
            }
        };
        let [rtsp, http, rtsps, https] = addresses(&line)?;
        let (rtsp, http) = rtsp.zip(http).with_context(|| format!("addresses are missing in `{line}`"))?;
        Ok(Server {
            process,
            rtsp,
            http,
            rtsps,
            https,
            cache,
            lines: Mutex::new(lines),
            _own_cache: own_cache,
        })
    }

    fn command(&self, cache: &Path, calibration: &Path) -> Result<Command> {
        let words: Vec<_> = self.before.iter().map(PathBuf::from).chain([binary()?]).collect();
        let mut command = match self.namespace {
            Some(namespace) => namespace.command(&words[0]),
            None => Command::new(&words[0]),
        };
        command.args(&words[1..]);
        let listen = format!("{}:0", self.address);
        command.arg("serve").args(&self.paths).args(["--rtsp", &listen, "--http", &listen]);
        command.arg("--cache").arg(cache);
        if !self.arguments.iter().any(|argument| argument == "--calibration") {
            command.arg("--calibration").arg(calibration);
        }
        // A test must not fail because its machine is busy and sessions are late.
        if !self.arguments.iter().any(|argument| argument == "--admission") {
            command.args(["--admission", "off"]);
        }
        command.args(&self.arguments);
        Ok(command)
    }
}

/// A calibration for this kernel, by which these paths are the cheaper the earlier they are named. Servers in
/// tests have one: what a test finds must not depend on what was measured, nor a server measure while others
/// are being tested.
pub fn calibration(paths: &[&str]) -> Result<String> {
    let host = serde_json::to_value(Host::this())?;
    let costs: Vec<serde_json::Value> = paths
        .iter()
        .zip(1..)
        .map(|(path, place)| serde_json::json!({"path": path, "packets_per_train": 8, "cpu_ns_per_packet": 100 * place}))
        .collect();
    let entry = serde_json::json!({
        "host": host, "device": "with_checksums", "mtu": 1500, "origin": "made for a test", "costs": costs,
    });
    Ok(serde_json::json!({"version": 1, "entries": [entry]}).to_string())
}

/// The `wirepath` command that was built with these tests.
pub fn binary() -> Result<PathBuf> {
    let profile = process::profile_folder()?;
    let binary = profile.join("wirepath");
    ensure!(binary.is_file(), "{} is not built; run: cargo build -p wirepath", binary.display());
    Ok(binary)
}

fn lines_of(stdout: std::process::ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // The test may have ended, and with it the interest in what is printed.
            sender.send(line).ok();
        }
    });
    receiver
}

/// Reads `ready rtsp=rtsp://HOST:PORT/ http=http://HOST:PORT/`, then rtsps and https where they are served.
fn addresses(line: &str) -> Result<[Option<SocketAddr>; 4]> {
    let context = || format!("`{line}` is not `ready rtsp=rtsp://HOST:PORT/ http=http://HOST:PORT/ …`");
    let mut words = line.split(' ');
    ensure!(words.next() == Some("ready"), context());
    let mut addresses = [None; 4];
    let mut word = words.next();
    for (protocol, address) in ["rtsp", "http", "rtsps", "https"].into_iter().zip(&mut addresses) {
        let prefix = format!("{protocol}={protocol}://");
        if let Some(rest) = word.and_then(|word| word.strip_prefix(&prefix)) {
            let resolved = rest.strip_suffix('/').and_then(|rest| rest.to_socket_addrs().ok()?.next());
            *address = Some(resolved.with_context(context)?);
            word = words.next();
        }
    }
    ensure!(word.is_none() && addresses[0].is_some() && addresses[1].is_some(), context());
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_is_read_strictly() {
        let ports = |line: &str| addresses(line).map(|all| all.map(|one| one.map(|address| address.port())));
        let plain = "ready rtsp=rtsp://127.0.0.1:8554/ http=http://127.0.0.1:8080/";
        assert_eq!(ports(plain).unwrap(), [Some(8554), Some(8080), None, None]);
        let secure = format!("{plain} https=https://127.0.0.1:8443/");
        assert_eq!(ports(&secure).unwrap(), [Some(8554), Some(8080), None, Some(8443)]);
        assert!(
            addresses("ready").is_err()
                && addresses(&format!("{secure} more")).is_err()
                && addresses("ready rtsp=rtsp://127.0.0.1/ http=http://a:1/").is_err()
        );
    }
}

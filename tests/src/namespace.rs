//! Network namespaces and the links between them, removed when dropped, and after a run that was killed.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::process::{self, find, is_root};
use crate::require;

const PREFIX: &str = "wirepath";

/// A network namespace.
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A new one, with its loopback device up. Skips the test where there is no right to make one.
    pub fn new() -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        static CLEANED: Once = Once::new();
        require!(is_root(), "network namespaces need root");
        require!(find("ip").is_some(), "`ip` is not installed");
        CLEANED.call_once(remove_leftovers);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}-{}-{number}", std::process::id());
        if let Err(error) = ip(["netns", "add", &name]) {
            let refused = format!("{error:#}").contains("Operation not permitted");
            require!(!refused, "making network namespaces is not permitted here");
            return Err(error);
        }
        let namespace = Self { name };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// A command that will run inside.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Runs a command line inside, to its good end.
    pub fn run(&self, line: &str) -> Result<String> {
        let mut words = line.split_whitespace();
        let program = words.next().context("an empty command line")?;
        let mut command = self.command(program);
        let mut process = process::Process::start(command.args(words), true)?;
        process.succeed(crate::Deadline::seconds(10.0)).with_context(|| line.to_owned())
    }

    /// Runs `ip` on what is inside.
    pub fn ip(&self, arguments: &str) -> Result<String> {
        ip(["-n", &self.name].into_iter().chain(arguments.split_whitespace()))
    }

    /// Calls `function` on a thread inside. Sockets made there stay there.
    pub fn enter<T: Send>(&self, function: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let handle = std::fs::File::open(self.path()).context("opening the namespace")?;
        let inside = || {
            move_into_link_name_space(handle.as_fd(), Some(LinkNameSpaceType::Network)).context("setns")?;
            function()
        };
        std::thread::scope(|scope| scope.spawn(inside).join())
            .map_err(|_| anyhow::anyhow!("a thread in {} panicked", self.name))?
    }

    /// Writes a kernel parameter of the namespace, given as a path below `/proc/sys`.
    pub fn set(&self, parameter: &str, value: &str) -> Result<()> {
        let file = PathBuf::from("/proc/sys").join(parameter);
        self.enter(|| std::fs::write(&file, value).with_context(|| file.display().to_string()))
    }

    /// Moves a device, which goes down and loses its addresses, to another namespace.
    pub fn give(&self, device: &str, other: &Namespace) -> Result<()> {
        self.ip(&format!("link set {device} netns {}", other.name)).map(drop)
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Leftovers are removed by the next run; a test's verdict does not depend on them.
        ip(["netns", "del", &self.name]).ok();
    }
}

/// Runs `ip` to its good end.
fn ip<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Result<String> {
    process::run("ip", arguments, 10.0)
}

/// Removes namespaces of test processes that no longer exist.
fn remove_leftovers() {
    let Ok(names) = std::fs::read_dir("/run/netns") else { return };
    for name in names.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let parts: Vec<&str> = name.split('-').collect();
        if let [PREFIX, process, _] = parts[..]
            && !PathBuf::from("/proc").join(process).exists()
        {
            // Another run may be removing it at the same time.
            ip(["netns", "del", &name]).ok();
        }
    }
}

/// Two namespaces joined by a veth pair.
///
/// ```text
///   client                         server
///   10.77.0.2/24 veth ------- veth 10.77.0.1/24
/// ```
pub struct Link {
    /// The client's side.
    pub client: Namespace,
    /// The server's side.
    pub server: Namespace,
}

/// The server's address on a [`Link`].
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The client's address on a [`Link`].
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

impl Link {
    /// Makes both and joins them.
    pub fn new() -> Result<Self> {
        let link = Self { client: Namespace::new()?, server: Namespace::new()? };
        join(&link.client, "veth", CLIENT, &link.server, "veth", SERVER)?;
        Ok(link)
    }
}

/// Joins two namespaces by a veth pair, its ends named and with addresses of one /24, up.
pub fn join(
    one: &Namespace,
    one_name: &str,
    one_address: Ipv4Addr,
    other: &Namespace,
    other_name: &str,
    other_address: Ipv4Addr,
) -> Result<()> {
    let peer = format!("peer name {other_name} netns {}", other.name);
    one.ip(&format!("link add {one_name} type veth {peer}"))?;
    for (namespace, name, address) in [(one, one_name, one_address), (other, other_name, other_address)] {
        namespace.ip(&format!("address add {address}/24 dev {name}"))?;
        namespace.ip(&format!("link set {name} up"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_carries_packets_and_leaves_nothing() {
        let link = match Link::new() {
            Ok(link) => link,
            Err(error) if error.is::<crate::trial::Skip>() => return println!("{error}"),
            Err(error) => panic!("{error:#}"),
        };
        let listener = link.server.enter(|| Ok(std::net::TcpListener::bind((SERVER, 0))?)).unwrap();
        let port = listener.local_addr().unwrap().port();
        link.client.enter(|| Ok(std::net::TcpStream::connect((SERVER, port))?)).unwrap();
        let (_, from) = listener.accept().unwrap();
        assert_eq!(from.ip(), CLIENT);
        let path = link.client.path();
        assert!(path.exists());
        drop(link);
        assert!(!path.exists());
    }
}

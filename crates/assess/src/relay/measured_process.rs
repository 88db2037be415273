//! Measured process, and its processor time.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use wirepath_sys::usage::Usage;

use super::task::{Task, messages};
use crate::error::{Doing, Error};
use crate::sockets::is_readable;

/// Timeout for a program to open its port, and for its children to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Timeout for a line of a forwarder: a run takes seconds.
const SILENCE: Duration = Duration::from_secs(120);

/// Polling interval for programs without messages.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Measured process; killed on drop.
pub(crate) struct MeasuredProcess {
    name: String,
    child: Child,
    /// Pipes to a forwarder.
    pipes: Option<(ChildStdin, BufReader<ChildStdout>)>,
    /// Listening port.
    pub(crate) port: u16,
}

/// Processor time used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessorTime {
    /// Total, in nanosecond resolution; for ended children, in ticks.
    total: Duration,
    /// Division by the kernel into user and system time, in ticks.
    user_ticks: u64,
    system_ticks: u64,
}

impl MeasuredProcess {
    /// Starts a forwarder for a task, on the processor and in the namespace of the calling thread, and waits
    /// until it listens.
    pub(crate) fn forwarder(task: &Task) -> Result<MeasuredProcess, Error> {
        let mut command = forwarder_command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = started(&mut command)?;
        let pipes = child.stdin.take().zip(child.stdout.take().map(BufReader::new));
        let mut side = MeasuredProcess { name: "the forwarder".to_owned(), child, pipes, port: 0 };
        let task =
            serde_json::to_string(task).map_err(std::io::Error::other).doing("telling the forwarder")?;
        side.send(&task)?;
        let line = side.receive()?;
        let port = line.strip_prefix(messages::LISTENING).and_then(|port| port.parse().ok());
        side.port = port.ok_or_else(|| side.failed(&format!("unexpected output {line:?}")))?;
        Ok(side)
    }

    /// Starts another program with its arguments, which has to listen on TCP port `port`.
    pub(crate) fn program(name: &str, program: &Command, port: u16) -> Result<MeasuredProcess, Error> {
        let mut command = forwarder_command();
        command.arg("--").arg(program.get_program()).args(program.get_args());
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut side =
            MeasuredProcess { name: name.to_owned(), child: started(&mut command)?, pipes: None, port };
        let deadline = Instant::now() + PATIENCE;
        while !listens(side.id(), port)? {
            if let Some(status) = side.child.try_wait().doing("looking at a program")? {
                return Err(Error::Unable(format!("{name} ended with {status} before it listened")));
            }
            if Instant::now() > deadline {
                return Err(Error::Unable(format!("{name} does not listen")));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(side)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until a forwarder has all its connections.
    pub(crate) fn wait_ready(&mut self) -> Result<(), Error> {
        self.await_message(messages::READY)
    }

    /// Starts a forwarder.
    pub(crate) fn go(&mut self) -> Result<(), Error> {
        match self.pipes {
            Some(_) => self.send(messages::GO),
            None => Ok(()),
        }
    }

    /// Waits until a forwarder has moved all data.
    pub(crate) fn wait_done(&mut self) -> Result<(), Error> {
        self.await_message(messages::DONE)
    }

    /// Processor time so far of the process, its process group and its children, ended children included.
    pub(crate) fn spent(&self) -> Result<ProcessorTime, Error> {
        let mut others: BTreeSet<u32> = self.children()?.into_iter().collect();
        if self.pipes.is_none() {
            others.extend(members(self.id()));
        }
        others.remove(&self.id());
        // The time of a process that ends meanwhile is accounted to its parent.
        let of_others = others.into_iter().filter_map(|process| ProcessorTime::of(process).ok());
        let own =
            ProcessorTime::of(self.id()).map_err(|error| self.failed(&format!("it is gone ({error})")))?;
        Ok(of_others.fold(own, ProcessorTime::plus))
    }

    /// Datagrams that sockets in the network namespace of the process have given to programs so far.
    pub(crate) fn datagrams_taken(&self) -> Result<u64, Error> {
        let counters = self.read("net/snmp")?;
        datagrams_taken(&counters).ok_or_else(|| self.failed("its namespace has no counters of UDP"))
    }

    /// Largest number of open files of one process, among the process and its children.
    pub(crate) fn descriptors(&self) -> Option<u64> {
        let processes = self.children().unwrap_or_default().into_iter().chain([self.id()]);
        processes.filter_map(descriptors).max()
    }

    /// Waits until the children have ended: only then is the processor time complete of a program that starts
    /// a process for each connection.
    pub(crate) fn wait_for_children(&self) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while !self.children()?.is_empty() {
            if Instant::now() > deadline {
                return Err(self.failed("its children do not end"));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Children of the process; a forwarder has none.
    fn children(&self) -> Result<Vec<u32>, Error> {
        if self.pipes.is_some() {
            return Ok(Vec::new());
        }
        let children = self.read(&format!("task/{}/children", self.id()))?;
        Ok(children.split_whitespace().filter_map(|child| child.parse().ok()).collect())
    }

    fn read(&self, what: &str) -> Result<String, Error> {
        fs::read_to_string(format!("/proc/{}/{what}", self.id()))
            .map_err(|error| self.failed(&format!("it is gone ({error})")))
    }

    fn send(&mut self, line: &str) -> Result<(), Error> {
        let sent = self.pipes.as_mut().map_or(Ok(()), |(input, _)| writeln!(input, "{line}"));
        sent.map_err(|error| self.failed(&error.to_string()))
    }

    fn receive(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        let received = self.pipes.as_mut().map_or(Ok(0), |(_, output)| {
            if output.buffer().is_empty() && !is_readable(output.get_ref(), SILENCE)? {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no output"));
            }
            output.read_line(&mut line)
        });
        match received {
            Ok(0) => Err(self.failed("it ended; its error is above")),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(self.failed(&error.to_string())),
        }
    }

    fn await_message(&mut self, word: &str) -> Result<(), Error> {
        if self.pipes.is_none() {
            return Ok(());
        }
        match self.receive()? {
            line if line == word => Ok(()),
            line => Err(self.failed(&format!("unexpected output {line:?}: expected {word:?}"))),
        }
    }

    pub(crate) fn failed(&self, why: &str) -> Error {
        Error::Faulty(format!("{}: {why}", self.name))
    }
}

impl Drop for MeasuredProcess {
    fn drop(&mut self) {
        // The process has no state to save, and may have exited already. Its children are killed with the
        // process group.
        let group = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
        self.child.wait().ok();
    }
}

impl ProcessorTime {
    /// Processor time of all kernel threads: children of kthreadd, which has the number 2.
    pub(crate) fn of_kernel() -> ProcessorTime {
        let threads = numbers().filter(|process| {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            parent_of(&stat) == Some(2)
        });
        let times = threads.filter_map(|thread| ProcessorTime::of(thread).ok());
        times.fold(ProcessorTime::default(), ProcessorTime::plus)
    }

    /// Processor time of a process, and of its children that ended and were waited for.
    pub(crate) fn of(process: u32) -> io::Result<ProcessorTime> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        let [user, system, child_user, child_system] = ticks(&stat).ok_or(io::ErrorKind::InvalidData)?;
        let seconds = |ticks: u64| ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        // An ended process that was not waited for no longer has a clock.
        let own = Usage::total_of(process).unwrap_or(Duration::from_secs_f64(seconds(user + system)));
        let total = own + Duration::from_secs_f64(seconds(child_user + child_system));
        Ok(ProcessorTime { total, user_ticks: user + child_user, system_ticks: system + child_system })
    }

    /// Sum of two times.
    pub(crate) fn plus(self, other: ProcessorTime) -> ProcessorTime {
        ProcessorTime {
            total: self.total + other.total,
            user_ticks: self.user_ticks + other.user_ticks,
            system_ticks: self.system_ticks + other.system_ticks,
        }
    }

    /// User and system seconds since `earlier`.
    pub(crate) fn since(self, earlier: ProcessorTime) -> (f64, f64) {
        let total = self.total.saturating_sub(earlier.total).as_secs_f64();
        let user = self.user_ticks.saturating_sub(earlier.user_ticks) as f64;
        let system = self.system_ticks.saturating_sub(earlier.system_ticks) as f64;
        // Without ticks yet, all time counts as system time.
        let share = if user + system > 0.0 { user / (user + system) } else { 0.0 };
        (total * share, total * (1.0 - share))
    }
}

/// Command for this program, by a path that children can resolve too. The link itself is executed, not its
/// target: the file may have been replaced since the start.
pub(crate) fn own_program() -> Command {
    Command::new(format!("/proc/{}/exe", std::process::id()))
}

fn forwarder_command() -> Command {
    let mut command = own_program();
    command.args(["assess", "forwarder"]);
    command
}

fn started(command: &mut Command) -> Result<Child, Error> {
    // Ctrl-C at the terminal is handled by this process: a run in progress is completed.
    let child = command.process_group(0).stderr(Stdio::inherit()).spawn();
    child.doing(&format!("starting {}", command.get_program().display()))
}

/// Number of open files of a process.
fn descriptors(process: u32) -> Option<u64> {
    let folder = format!("/proc/{process}/fd");
    // Since Linux 6.2 the folder's size is the number of descriptors; before, the size is 0.
    match fs::metadata(&folder).ok()?.len() {
        0 => Some(fs::read_dir(&folder).ok()?.count() as u64),
        number => Some(number),
    }
}

/// Processes of a process group.
fn members(group: u32) -> Vec<u32> {
    let is_member = |process: &u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        group_of(&stat) == Some(group)
    };
    numbers().filter(is_member).collect()
}

/// Numbers of all processes and kernel threads.
fn numbers() -> impl Iterator<Item = u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Counter `InDatagrams` of UDP (RFC 4113), in lines of names and of values (`/proc/PID/net/snmp`).
fn datagrams_taken(counters: &str) -> Option<u64> {
    let mut lines = counters.lines().filter_map(|line| line.strip_prefix("Udp: ")).map(str::split_whitespace);
    let (mut names, mut values) = (lines.next()?, lines.next()?);
    let place = names.position(|name| name == "InDatagrams")?;
    values.nth(place)?.parse().ok()
}

/// Parent of a process (proc_pid_stat(5), field 4).
fn parent_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Process group of a process (proc_pid_stat(5), field 5).
fn group_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

/// User and system time of a process, and of its children that ended (proc_pid_stat(5), fields 14 to 17).
fn ticks(stat: &str) -> Option<[u64; 4]> {
    // The name, in parentheses, may contain any characters.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse().ok();
    Some([next()?, next()?, next()?, next()?])
}

/// Returns whether a socket listens on this port, in the network namespace of the process. An ended process
/// has no namespace.
fn listens(process: u32, port: u16) -> Result<bool, Error> {
    match fs::read_to_string(format!("/proc/{process}/net/tcp")) {
        Ok(table) => Ok(has_listener(&table, port)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).doing("looking for listening sockets"),
    }
}

/// Searches a table of lines `sl local_address rem_address st …` for the port; state 0A is LISTEN.
fn has_listener(table: &str, port: u16) -> bool {
    let local = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_local = fields.next().is_some_and(|address| address.ends_with(&local));
        is_local && fields.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "77 (a) b (c) S 1 77 77 0 -1 4194560 1 2 3 4 50 60 7 8 20 0 1 0 9 10 11";
        assert_eq!(ticks(stat), Some([50, 60, 7, 8]));
        assert_eq!(ticks("77 (a) S 1"), None);
        assert_eq!(group_of("78 (a) b (c) S 1 77 76 0"), Some(77));
        assert_eq!(parent_of("78 (a) b (c) S 1 77 76 0"), Some(1));
    }

    /// Promise: The processor time of other programs includes all their descendant processes.
    #[test]
    fn children_of_children_are_of_the_group() {
        let mut command = Command::new("sh");
        command.args(["-c", "(sh -c 'echo begun; exec sleep 60'; exit) & wait"]);
        let child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let mut side = MeasuredProcess { name: "sh".to_owned(), child, pipes: None, port: 0 };
        let mut line = String::new();
        BufReader::new(side.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(members(side.id()).len(), 3, "the shell, its child, and the child's");
        assert!(side.spent().unwrap().total > Duration::ZERO);
    }

    #[test]
    fn open_files_are_counted() {
        let before = descriptors(std::process::id()).unwrap();
        let _files: Vec<fs::File> = (0..100).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        assert!(descriptors(std::process::id()).unwrap() >= 100, "{before} before");
        assert_eq!(descriptors(u32::MAX), None);
    }

    #[test]
    fn the_total_is_divided_as_the_ticks_are() {
        let before = ProcessorTime { total: Duration::from_secs(1), user_ticks: 10, system_ticks: 10 };
        let after = ProcessorTime { total: Duration::from_secs(3), user_ticks: 11, system_ticks: 13 };
        assert_eq!(after.since(before), (0.5, 1.5));
        assert_eq!(ProcessorTime { total: Duration::from_secs(3), ..before }.since(before), (0.0, 2.0));
    }

    #[test]
    fn taken_datagrams_are_counted_and_waiting_ones_are_not() {
        let count = || {
            let counters = fs::read_to_string("/proc/self/net/snmp").unwrap();
            datagrams_taken(&counters).unwrap()
        };
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..10 {
            socket.send_to(&[1], socket.local_addr().unwrap()).unwrap();
        }
        let before = count();
        (0..10).for_each(|_| assert_eq!(socket.recv(&mut [0; 1]).unwrap(), 1));
        assert!(count() >= before + 10);
        assert_eq!(datagrams_taken("Udp: NoPorts InDatagrams\nUdp: 3 9\nUdpLite: InDatagrams\n"), Some(9));
        assert_eq!(datagrams_taken("Tcp: InSegs\nTcp: 1\n"), None);
    }

    #[test]
    fn a_listener_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listens(std::process::id(), port).unwrap());
        let row = "  0: 0100007F:1F90 00000000:0000 01 00000000:00000000";
        assert!(!has_listener(row, 8080));
        assert!(has_listener(&row.replace(" 01 ", " 0A "), 8080));
    }
}

//! Result of the experiment `clients`, as written to JSON. Times are in seconds unless the name has another
//! unit.

use serde::{Deserialize, Serialize};

use super::case::ClientCase;
use crate::result::{Host, LeftOut, ReadError, read};

/// Version of this schema. Readers accept no other version.
pub const SCHEMA: &str = "wirepath-clients/1";

/// Result of one run of the experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clients {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the program and its commit.
    pub program: String,
    /// Start time: RFC 3339, UTC.
    pub started: String,
    /// Duration.
    pub seconds: f64,
    /// True if the run was stopped before its end.
    pub partial: bool,
    /// The machine.
    pub host: Host,
    /// Criterion and conditions.
    pub conditions: Conditions,
    /// Searches, one for each case and server.
    pub searches: Vec<ClientSearch>,
    /// Cases that were not measured, and the reasons.
    pub left_out: Vec<LeftOut>,
}

/// Conditions of all steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Measured seconds of a step.
    pub window_s: f64,
    /// Seconds from the start of the last session to the window.
    pub settle_s: f64,
    /// Sessions started each second.
    pub ramp: f64,
    /// Milliseconds of media that a player buffers.
    pub buffer_ms: f64,
    /// Processor of the server in cases with one processor.
    pub processor: u32,
    /// Processors of the load client.
    pub client_processors: usize,
    /// Limit of open files, of the server and of the load client each.
    pub descriptors: u64,
    /// Largest number of clients to try.
    pub most: usize,
    /// Processor packages whose energy is counted (RAPL); empty in results older than this field.
    #[serde(default)]
    pub energy_packages: Vec<String>,
    /// Processes of `wirepath serve`; 0 in results older than this field.
    #[serde(default)]
    pub processes: usize,
    /// Further arguments for `wirepath serve`.
    pub server_arguments: Vec<String>,
    /// Peers: name and command.
    pub peers: Vec<(String, String)>,
}

/// Search for the largest number of timely clients of one server in one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientSearch {
    /// `wirepath`, or the name of a peer.
    pub server: String,
    /// The case.
    pub case: ClientCase,
    /// Largest number of clients that were all timely.
    pub largest: Option<usize>,
    /// Smallest failed number above it.
    pub failed: Option<usize>,
    /// Limit reached at the smallest failed number; without a failed number, the reason why the search ended.
    pub limit: Limit,
    /// All steps, in the order in which they were made.
    pub steps: Vec<Step>,
}

/// Limit of the number of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The server's processors were saturated.
    Processor,
    /// Bursts were late, though the processors were not saturated.
    Lateness,
    /// Packets were lost or not sent, though the processors were not saturated.
    Loss,
    /// Media arrived at less than their rate, though the processors were not saturated.
    Rate,
    /// The disk.
    Disk,
    /// Admission control of the server: it refused sessions.
    Admission,
    /// Devices, their queues or socket buffers of the server were full.
    Link,
    /// Limit of open files.
    Descriptors,
    /// Sessions were not set up in time.
    SetUp,
    /// The load client: the server may carry more.
    Client,
    /// Other programs used the server's processor: the server may carry more.
    OtherPrograms,
    /// Length of the media: with more clients, the media of the first ones would end before the window does.
    Media,
    /// Largest number to try: the server may carry more.
    Most,
    /// The server did not start, or exited.
    Server,
}

/// One attempt with a number of clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Number of clients.
    pub clients: usize,
    /// Reason for the failure; `None` if all clients were timely.
    pub limit: Option<Limit>,
    /// Text of the reason.
    pub reason: String,
    /// Figures of the window; `None` if the server did not start.
    pub figures: Option<Figures>,
}

/// Figures of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Data path that sent most trains of `wirepath serve` over UDP; `None` for peers and other transports, and if
    /// the server gave no metrics; `other` if a path by io_uring was requested and most trains left by another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_path: Option<String>,
    /// Length of the window.
    pub window_s: f64,
    /// Processor time of the server in user space, in the window.
    pub user_s: f64,
    /// Processor time of the server in the kernel, in the window.
    pub system_s: f64,
    /// Processors, of those of the server, that other programs used in the window; `None` if the server had
    /// all.
    pub others: Option<f64>,
    /// Bits per second that the server sent, headers included.
    pub bits_per_second: f64,
    /// Share of the expected bytes that were sent to sessions that are not judged; judged sessions are the
    /// reference.
    pub sent_share: Option<f64>,
    /// Lowest media rate of a judged session as a share of its nominal rate, by the clock of the transport
    /// stream; `None` if no session had 3 s of media, so that the rate was not judged.
    #[serde(default)]
    pub least_pace: Option<f64>,
    /// Judged sessions.
    pub judged: u64,
    /// Judged sessions that were timely.
    pub timely: u64,
    /// Lateness of bursts in milliseconds: median.
    pub lateness_p50_ms: Option<f64>,
    /// Lateness of bursts in milliseconds: 99th percentile.
    pub lateness_p99_ms: Option<f64>,
    /// Lateness of bursts in milliseconds: maximum.
    pub lateness_max_ms: Option<f64>,
    /// Milliseconds of media in a received burst: median.
    pub burst_p50_ms: Option<f64>,
    /// Packets of judged sessions lost by the server.
    pub lost: u64,
    /// Sessions that were playing when the window began.
    pub playing: u64,
    /// Sessions that failed.
    pub failed: u64,
    /// Failed sessions that the server refused (453 or 503).
    pub refused: u64,
    /// Most frequent reason of session failures.
    pub failure: Option<String>,
    /// Sessions set up per second during the ramp; 0 over HTTP, which has no set-up.
    pub setups_per_second: f64,
    /// Set-up time in milliseconds: median.
    pub setup_p50_ms: Option<f64>,
    /// Set-up time in milliseconds: 99th percentile.
    pub setup_p99_ms: Option<f64>,
    /// Milliseconds from PLAY to the first packet, or over HTTP from the request to the first byte: 99th
    /// percentile.
    pub first_packet_p99_ms: Option<f64>,
    /// Joules of all processor packages in the window; idle packages, the load client and other programs
    /// included.
    #[serde(default)]
    pub joules: Option<f64>,
    /// Sends that found devices, their queues or socket buffers of the server full, in the window.
    #[serde(default)]
    pub link_drops: u64,
    /// Open files of the server process that has most.
    #[serde(default)]
    pub descriptors: Option<u64>,
    /// Share of the window in which a task waited for storage.
    pub storage_waits: Option<f64>,
    /// Processors that the load client used.
    pub client_processors: f64,
    /// Lateness of the load client's event loops in milliseconds: 99th percentile.
    pub client_late_p99_ms: Option<f64>,
    /// Lateness of the load client's event loops in milliseconds: maximum.
    pub client_late_max_ms: Option<f64>,
    /// Datagrams or trains that the load client's sockets dropped.
    pub client_drops: u64,
}

impl Clients {
    /// Reads a result.
    ///
    /// # Errors
    /// [`ReadError`] for text that is not a result, or is of another version.
    pub fn from_json(text: &str) -> Result<Clients, ReadError> {
        read(text, SCHEMA)
    }
}

impl Figures {
    /// Processors that the server used.
    pub fn processors(&self) -> f64 {
        if self.window_s > 0.0 { (self.user_s + self.system_s) / self.window_s } else { 0.0 }
    }
}

impl Step {
    /// Processor seconds of the server per minute of one client.
    pub fn seconds_per_client_minute(&self) -> Option<f64> {
        let figures = self.figures.as_ref()?;
        (self.clients > 0).then(|| figures.processors() * 60.0 / self.clients as f64)
    }

    /// Joules of all processor packages per hour of one client.
    pub fn joules_per_client_hour(&self) -> Option<f64> {
        let figures = self.figures.as_ref()?;
        let is_told = self.clients > 0 && figures.window_s > 0.0;
        figures
            .joules
            .filter(|_| is_told)
            .map(|joules| joules / figures.window_s * 3600.0 / self.clients as f64)
    }
}

impl ClientSearch {
    /// Last passed step with the largest number of clients.
    pub fn best(&self) -> Option<&Step> {
        self.timely(self.largest?)
    }

    /// Last step with this number of clients in which all were timely.
    pub fn timely(&self, clients: usize) -> Option<&Step> {
        self.steps.iter().rev().find(|step| step.clients == clients && step.limit.is_none())
    }

    /// Gain of each further processor, as a share of the clients that one processor carries. `one` is the
    /// search with one processor; `self` is the search with all `processors`.
    pub fn gain_by_processor(&self, one: &ClientSearch, processors: usize) -> Option<f64> {
        let (one, all) = (one.largest? as f64, self.largest? as f64);
        (processors > 1 && one > 0.0).then(|| (all - one) / one / (processors - 1) as f64)
    }

    /// Returns whether the server may carry more clients than were found.
    pub fn is_lower_bound(&self) -> bool {
        use Limit::{Client, Descriptors, Media, Most, OtherPrograms};
        matches!(self.limit, Client | Most | Media | OtherPrograms | Descriptors)
    }
}

impl Limit {
    /// Name.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Processor => "processor",
            Limit::Lateness => "lateness",
            Limit::Loss => "loss",
            Limit::Rate => "rate",
            Limit::Disk => "disk",
            Limit::Admission => "admission",
            Limit::Link => "link",
            Limit::Descriptors => "open files",
            Limit::SetUp => "set-up",
            Limit::Client => "load client",
            Limit::OtherPrograms => "other programs",
            Limit::Media => "media length",
            Limit::Most => "--most",
            Limit::Server => "server failed",
        }
    }
}

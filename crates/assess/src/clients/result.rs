//! Result of the experiment, as it is written to JSON. Times are in seconds unless the name says another unit.

use serde::{Deserialize, Serialize};

use super::case::ClientCase;
use crate::result::{Host, LeftOut, ReadError, read};

/// Version of this schema. A reader takes no other.
pub const SCHEMA: &str = "wirepath-clients/1";

/// Everything that one run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clients {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of the program and its commit.
    pub program: String,
    /// When it began: RFC 3339, UTC.
    pub started: String,
    /// Duration.
    pub seconds: f64,
    /// True if it was stopped before its end.
    pub partial: bool,
    /// The machine.
    pub host: Host,
    /// Criterion and conditions.
    pub conditions: Conditions,
    /// A search for each case and server.
    pub searches: Vec<ClientSearch>,
    /// Cases that were not measured, and the reasons.
    pub left_out: Vec<LeftOut>,
}

/// Conditions of all steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Seconds that a step is measured.
    pub window_s: f64,
    /// Seconds from the start of the last session to the window.
    pub settle_s: f64,
    /// Sessions started each second.
    pub ramp: f64,
    /// Milliseconds of media that a player holds back.
    pub buffer_ms: f64,
    /// Processor of the server where it has one.
    pub processor: u32,
    /// Processors of the load client.
    pub client_processors: usize,
    /// Open files that server and load client each may have.
    pub descriptors: u64,
    /// Most clients that are tried.
    pub most: usize,
    /// Processor packages whose energy is counted (RAPL); none in results from before it was.
    #[serde(default)]
    pub energy_packages: Vec<String>,
    /// Processes of `wirepath serve`; 0 in results from before there could be several.
    #[serde(default)]
    pub processes: usize,
    /// Further arguments for `wirepath serve`.
    pub server_arguments: Vec<String>,
    /// Other servers: name and command.
    pub peers: Vec<(String, String)>,
}

/// Search for the largest number of timely clients of one server in one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientSearch {
    /// `wirepath`, or the name of another server.
    pub server: String,
    /// The case.
    pub case: ClientCase,
    /// Largest number of clients that were all timely.
    pub largest: Option<usize>,
    /// Least number above it that was not.
    pub failed: Option<usize>,
    /// Limit that the least number that failed ran into; of a search without one, the reason for its end.
    pub limit: Limit,
    /// All steps, in their order.
    pub steps: Vec<Step>,
}

/// Where the limit was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The server's processors were saturated.
    Processor,
    /// Lateness, though the processors were not saturated.
    Lateness,
    /// Packets were lost or not sent, though the processors were not saturated.
    Loss,
    /// Media came at less than their rate, though the processors were not saturated.
    Rate,
    /// The disk.
    Disk,
    /// Admission of the server: it refused sessions.
    Admission,
    /// Devices, their queues or socket buffers of the server ran full.
    Link,
    /// Open files.
    Descriptors,
    /// Sessions were not set up in time.
    SetUp,
    /// The load client: the server may carry more.
    Client,
    /// Other programs on the server's processor: the server may carry more.
    OtherPrograms,
    /// The length of the media: with more clients the first ones' would be over before the window is.
    Media,
    /// The most that was to be tried: the server may carry more.
    Most,
    /// The server did not start, or ended.
    Server,
}

/// A number of clients, tried once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Clients.
    pub clients: usize,
    /// Reason for the failure; `None` if all were timely.
    pub limit: Option<Limit>,
    /// The same in words.
    pub reason: String,
    /// Figures of the window; `None` if the server did not start.
    pub figures: Option<Figures>,
}

/// Figures of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Data path that `wirepath serve` chose; `None` of other servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_path: Option<String>,
    /// Length of the window.
    pub window_s: f64,
    /// Processor time of the server in user space, in the window.
    pub user_s: f64,
    /// Processor time of the server in the kernel, in the window.
    pub system_s: f64,
    /// Processors that other programs used of the server's, in the window; unknown where it had all.
    pub others: Option<f64>,
    /// Bits a second that the server sent, headers included.
    pub bits_per_second: f64,
    /// Share of what sessions that are not judged should have been sent, by what came of those that are.
    pub sent_share: Option<f64>,
    /// Least share of its rate that a judged session's media came at, by the clock of the transport stream;
    /// `None` if no session had 3 s of it, and the rate was not judged.
    #[serde(default)]
    pub least_pace: Option<f64>,
    /// Sessions that were judged, and that were timely of those.
    pub judged: u64,
    /// Timely ones of those.
    pub timely: u64,
    /// Milliseconds that bursts were late: median.
    pub lateness_p50_ms: Option<f64>,
    /// 99th percentile.
    pub lateness_p99_ms: Option<f64>,
    /// Greatest.
    pub lateness_max_ms: Option<f64>,
    /// Milliseconds of media in a burst, as received: median.
    pub burst_p50_ms: Option<f64>,
    /// Judged packets lost by the server.
    pub lost: u64,
    /// Sessions that played when the window began.
    pub playing: u64,
    /// Sessions that failed.
    pub failed: u64,
    /// Of those, refused by the server (453 or 503).
    pub refused: u64,
    /// Most frequent reason of failures.
    pub failure: Option<String>,
    /// Sessions set up each second while they were started; 0 over HTTP, which has none.
    pub setups_per_second: f64,
    /// Milliseconds of a set-up: median.
    pub setup_p50_ms: Option<f64>,
    /// 99th percentile.
    pub setup_p99_ms: Option<f64>,
    /// Milliseconds from PLAY to the first packet, over HTTP from a request to the first byte: 99th percentile.
    pub first_packet_p99_ms: Option<f64>,
    /// Joules of all processor packages in the window: idle ones, the load client and other programs included.
    #[serde(default)]
    pub joules: Option<f64>,
    /// Sends that devices, their queues or socket buffers of the server had no room for, in the window.
    #[serde(default)]
    pub link_drops: u64,
    /// Open files of the server's process that has most of them.
    #[serde(default)]
    pub descriptors: Option<u64>,
    /// Share of the window in which some task waited for storage.
    pub storage_waits: Option<f64>,
    /// Processors that the load client used.
    pub client_processors: f64,
    /// Milliseconds that the load client's event loops were late: 99th percentile.
    pub client_late_p99_ms: Option<f64>,
    /// Greatest.
    pub client_late_max_ms: Option<f64>,
    /// Datagrams or trains that the load client's sockets dropped.
    pub client_drops: u64,
}

impl Clients {
    /// Reads a result.
    ///
    /// # Errors
    /// [`ReadError`] for text that is none, or of another version.
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
    /// Processor seconds of the server for one minute of one client.
    pub fn seconds_per_client_minute(&self) -> Option<f64> {
        let figures = self.figures.as_ref()?;
        (self.clients > 0).then(|| figures.processors() * 60.0 / self.clients as f64)
    }

    /// Joules of all processor packages for one hour of one client.
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
    /// The step of the largest number: the last one of those that passed.
    pub fn best(&self) -> Option<&Step> {
        self.timely(self.largest?)
    }

    /// The last step with so many clients that were timely.
    pub fn timely(&self, clients: usize) -> Option<&Step> {
        self.steps.iter().rev().find(|step| step.clients == clients && step.limit.is_none())
    }

    /// Share of the clients of the first processor that each further one of `processors` adds, if `one` is the search
    /// with one processor and this the one with all.
    pub fn gain_by_processor(&self, one: &ClientSearch, processors: usize) -> Option<f64> {
        let (one, all) = (one.largest? as f64, self.largest? as f64);
        (processors > 1 && one > 0.0).then(|| (all - one) / one / (processors - 1) as f64)
    }

    /// Returns whether the server may carry more than was found.
    pub fn is_lower_bound(&self) -> bool {
        use Limit::{Client, Descriptors, Media, Most, OtherPrograms};
        matches!(self.limit, Client | Most | Media | OtherPrograms | Descriptors)
    }
}

impl Limit {
    /// Its name.
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

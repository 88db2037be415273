//! Step: one attempt with a number of clients.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use wirepath_load::{Mix, Observer, Options, Outcome, SessionRecord, Snapshot, Target};

use super::case::{ClientCase, MediaTransport, Processors, Storage};
use super::media::Media;
use super::options::ClientOptions;
use super::result::{Figures, Limit, Step};
use super::server::{Contestant, Server};
use super::verdict::{Terms, judge};
use crate::energy::{self, EnergyMeter};
use crate::error::Error;
use crate::progress::Progress;
use crate::relay::ProcessorTime;
use crate::test_bed::{ClientBed, Traffic, client_addresses};

/// Share of the clients that are judged, and bounds of their number.
const JUDGED: f64 = 0.05;
const LEAST_JUDGED: f64 = 4.0;
const MOST_JUDGED: f64 = 100.0;

/// Exponent of Zipf's law for requests of several assets.
const ZIPF: f64 = 1.1;

/// Timeout for answers and first packets.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Context of a step.
pub(crate) struct Trial<'a> {
    pub(crate) bed: &'a ClientBed,
    pub(crate) media: &'a Media,
    pub(crate) options: &'a ClientOptions,
    /// Limit of open files of a process.
    pub(crate) descriptors: u64,
}

/// Readings at the beginning or end of the window.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    used: ProcessorTime,
    traffic: Traffic,
    /// Media bytes that clients received.
    received: u64,
    /// Busy time of the server's processor, without interrupts.
    busy: Option<Duration>,
    storage_waits: Option<Duration>,
    joules: Option<f64>,
    descriptors: Option<u64>,
}

/// Observer of a run, which takes the readings.
struct Watch<'a> {
    bed: &'a ClientBed,
    server: &'a Server,
    energy: Option<EnergyMeter>,
    progress: &'a mut dyn Progress,
    begin: Instant,
    window_after: Duration,
    marks: Option<(Mark, Mark)>,
    received: u64,
    /// Smallest number of sessions that played in the window.
    playing: Option<u64>,
    error: Option<Error>,
}

impl Trial<'_> {
    /// Runs a step with this number of clients of a server.
    ///
    /// # Errors
    /// [`Error::Stopped`], and errors that concern more than this step.
    pub(crate) fn step(
        &self,
        contestant: &Contestant,
        case: &ClientCase,
        clients: usize,
        progress: &mut dyn Progress,
    ) -> Result<Step, Error> {
        self.media.remove_leftovers()?;
        self.media.set_cached(case.storage == Storage::Memory)?;
        let tried = contestant
            .start(self.bed, case, self.media, clients, self.options)
            .and_then(|server| self.figures(case, &server, clients, progress));
        match tried {
            Ok(figures) => {
                let verdict = judge(&figures, &self.terms(case, clients));
                let limit = verdict.as_ref().map(|(limit, _)| *limit);
                let reason = verdict.map_or_else(String::new, |(_, reason)| reason);
                Ok(Step { clients, limit, reason, figures: Some(figures) })
            }
            Err(Error::Unable(reason) | Error::Faulty(reason)) => {
                Ok(Step { clients, limit: Some(Limit::Server), reason, figures: None })
            }
            Err(error) => Err(error),
        }
    }

    fn terms(&self, case: &ClientCase, clients: usize) -> Terms {
        let all = case.processors == Processors::All;
        Terms {
            clients,
            burst: case.longest_burst(),
            processors: if all { self.bed.all_processors() } else { 1 },
            kind: case.processors,
            client_processors: self.bed.client_processors(),
            storage: case.storage,
            transport: case.transport,
            descriptors: self.descriptors,
        }
    }

    fn figures(
        &self,
        case: &ClientCase,
        server: &Server,
        clients: usize,
        progress: &mut dyn Progress,
    ) -> Result<Figures, Error> {
        let load = self.load(case, server, clients)?;
        let ramp = Duration::from_secs_f64(clients.saturating_sub(1) as f64 / load.ramp);
        let mut watch = Watch {
            bed: self.bed,
            server,
            energy: EnergyMeter::of_folder(Path::new(energy::FOLDER)),
            progress,
            begin: Instant::now(),
            window_after: ramp + self.options.settle,
            marks: None,
            received: 0,
            playing: None,
            error: None,
        };
        let outcome = self.bed.at_clients(|| {
            wirepath_load::run(load, &mut watch).map_err(|error| Error::Unable(error.to_string()))
        })?;
        if let Some(error) = watch.error {
            return Err(error);
        }
        if watch.progress.stopped() {
            return Err(Error::Stopped);
        }
        let mut figures = of_outcome(&outcome);
        figures.data_path = server.data_path(self.bed);
        figures.playing = watch.playing.unwrap_or(0);
        let (begin, end) = match watch.marks {
            Some(marks) => marks,
            // All sessions have failed: the result has the reason.
            None if figures.failed > 0 => return Ok(figures),
            None => return Err(Error::Faulty("the run ended before its window".to_owned())),
        };
        figures.add_marks(&begin, &end, case.processors);
        figures.sent_share = sent_share(case.transport, &outcome, clients, &begin, &end);
        Ok(figures)
    }

    fn load(&self, case: &ClientCase, server: &Server, clients: usize) -> Result<Options, Error> {
        let (from, sample_from) = client_addresses(clients);
        let targets = server.urls.iter().map(|url| Target::parse(url)).collect::<Result<Vec<_>, _>>();
        let judged = (clients as f64 * JUDGED).clamp(LEAST_JUDGED, MOST_JUDGED);
        Ok(Options {
            targets: targets.map_err(|error| Error::Unable(error.to_string()))?,
            mix: if self.media.names.len() > 1 { Mix::Zipf(ZIPF) } else { Mix::Even },
            sessions: clients,
            ramp: self.options.ramp,
            duration: self.options.settle + self.options.window,
            settle: self.options.settle,
            transport: match case.transport {
                MediaTransport::Udp => wirepath_load::Transport::Udp,
                MediaTransport::Tcp | MediaTransport::Http => wirepath_load::Transport::Tcp,
            },
            rate: (case.transport == MediaTransport::Http).then_some(case.bits_per_second as u64),
            sample: (judged / clients as f64).min(1.0),
            seek_every: None,
            churn: None,
            vanish: 0.0,
            storm: None,
            buffer: self.options.buffer,
            from,
            sample_from,
            threads: self.bed.client_processors(),
            timeout: TIMEOUT,
        })
    }
}

impl Watch<'_> {
    fn mark(&mut self) -> Result<Mark, Error> {
        Ok(Mark {
            at: Instant::now(),
            used: self.server.spent()?,
            traffic: self.bed.traffic()?,
            received: self.received,
            busy: busy(self.bed.processor()),
            storage_waits: storage_waits(),
            joules: self.energy.as_mut().and_then(EnergyMeter::joules),
            descriptors: self.server.descriptors(),
        })
    }

    /// Takes a reading, once the window has begun.
    fn look(&mut self) {
        if self.error.is_some() || self.begin.elapsed() < self.window_after {
            return;
        }
        match (self.mark(), self.marks) {
            (Ok(mark), None) => self.marks = Some((mark, mark)),
            (Ok(mark), Some((begin, _))) => self.marks = Some((begin, mark)),
            (Err(error), _) => self.error = Some(error),
        }
    }
}

impl Observer for Watch<'_> {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.received = snapshot.bytes;
        if self.marks.is_some() {
            self.playing = Some(self.playing.map_or(snapshot.playing, |least| least.min(snapshot.playing)));
            self.look();
        }
    }

    fn is_stopped(&mut self) -> bool {
        if self.marks.is_none() {
            self.look();
        }
        self.error.is_some() || self.progress.stopped()
    }
}

fn of_outcome(outcome: &Outcome) -> Figures {
    let media = &outcome.media;
    let lateness = media.lateness_ms;
    let refused = |reason: &&String| reason.contains(" 453 ") || reason.contains(" 503 ");
    let failures = || outcome.failures.iter();
    let ready = |record: &SessionRecord| Some(record.started_s + record.setup_ms? / 1000.0);
    let last_ready = outcome.records.iter().filter_map(ready).fold(0.0, f64::max);
    let set_up = outcome.records.iter().filter(|record| record.setup_ms.is_some()).count();
    let http = outcome.http.as_ref();
    let first_ms = outcome.first_packet_ms.or(http.and_then(|http| http.first_byte_ms));
    Figures {
        judged: outcome.sessions.judged,
        timely: outcome.sessions.timely,
        lateness_p50_ms: lateness.map(|times| times.p50),
        lateness_p99_ms: lateness.map(|times| times.p99),
        lateness_max_ms: lateness.map(|times| times.max),
        burst_p50_ms: media.burst_ms.map(|times| times.p50),
        least_pace: media.least_pace,
        lost: media.lost + media.missing_at_start,
        failed: outcome.sessions.failed,
        refused: failures().filter(|(reason, _)| refused(reason)).map(|(_, number)| number).sum(),
        failure: failures().max_by_key(|(_, number)| **number).map(|(reason, _)| reason.clone()),
        setups_per_second: if last_ready > 0.0 { set_up as f64 / last_ready } else { 0.0 },
        setup_p50_ms: outcome.setup_ms.map(|times| times.p50),
        setup_p99_ms: outcome.setup_ms.map(|times| times.p99),
        first_packet_p99_ms: first_ms.map(|times| times.p99),
        client_processors: outcome.client.processors,
        client_late_p99_ms: outcome.client.event_loop_ms.map(|times| times.p99),
        client_late_max_ms: outcome.client.event_loop_ms.map(|times| times.max),
        client_drops: outcome.client.dropped_buffers,
        ..Figures::default()
    }
}

impl Figures {
    fn add_marks(&mut self, begin: &Mark, end: &Mark, processors: Processors) {
        self.window_s = (end.at - begin.at).as_secs_f64();
        if self.window_s <= 0.0 {
            return;
        }
        (self.user_s, self.system_s) = end.used.since(begin.used);
        let sent = end.traffic.since(begin.traffic);
        self.bits_per_second = (sent.dropped.bytes + sent.carried.bytes) as f64 * 8.0 / self.window_s;
        let share =
            |(begin, end): (Duration, Duration)| end.saturating_sub(begin).as_secs_f64() / self.window_s;
        self.link_drops = sent.unsent;
        self.joules = begin.joules.zip(end.joules).map(|(begin, end)| end - begin);
        self.descriptors = begin.descriptors.max(end.descriptors);
        self.storage_waits = begin.storage_waits.zip(end.storage_waits).map(share);
        let busy = begin.busy.zip(end.busy).map(share).filter(|_| processors == Processors::One);
        self.others = busy.map(|busy| (busy - self.processors()).max(0.0));
    }
}

/// Share of the expected bytes that sessions outside the sample were sent; judged sessions are the reference.
fn sent_share(
    transport: MediaTransport,
    outcome: &Outcome,
    clients: usize,
    begin: &Mark,
    end: &Mark,
) -> Option<f64> {
    let judged = outcome.sessions.judged as f64;
    let others = clients as f64 - judged;
    let ratio = |sent: f64, expected: f64| (expected > 0.0 && others > 0.0).then(|| sent / expected);
    match transport {
        MediaTransport::Udp => {
            let sent = end.traffic.since(begin.traffic);
            ratio(sent.dropped.bytes as f64 / others, sent.carried.bytes as f64 / judged)
        }
        MediaTransport::Tcp => {
            let rates =
                outcome.records.iter().filter_map(|record| Some(record.media.as_ref()?.bits_per_second));
            let rate = rates.sum::<f64>() / judged;
            let seconds = (end.at - begin.at).as_secs_f64();
            ratio((end.received - begin.received) as f64 * 8.0 / seconds, rate * clients as f64)
        }
        // Players read one second of media at a time, so a window may have fewer bytes than its duration
        // implies.
        MediaTransport::Http => {
            let bytes = outcome.records.iter().filter_map(|record| Some(record.http.as_ref()?.bytes));
            ratio(end.received as f64 / clients as f64, bytes.sum::<u64>() as f64 / judged)
        }
    }
}

/// Time that a processor was busy with programs and the kernel, stolen time included (proc_stat(5)).
fn busy(processor: u32) -> Option<Duration> {
    of_processor(&fs::read_to_string("/proc/stat").ok()?, processor)
}

fn of_processor(table: &str, processor: u32) -> Option<Duration> {
    let row = table.lines().find_map(|line| line.strip_prefix(&format!("cpu{processor} ")))?;
    let ticks: Vec<u64> = row.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system] = ticks.first_chunk::<3>()?;
    let busy = user + nice + system + ticks.get(7)?;
    Some(Duration::from_secs_f64(busy as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Time in which a task waited for storage, if the kernel accounts for it (pressure stall information).
fn storage_waits() -> Option<Duration> {
    of_pressure(&fs::read_to_string("/proc/pressure/io").ok()?)
}

fn of_pressure(text: &str) -> Option<Duration> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split_whitespace().find_map(|field| field.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_kernel_are_read() {
        let table = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu10 100 0 0 0 0 0 0 0 0 0\n";
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(of_processor(table, 0), Some(Duration::from_secs_f64(14.0 / ticks)));
        assert_eq!(of_processor(table, 1), None);
        let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500\nfull avg10=0.00 total=7\n";
        assert_eq!(of_pressure(pressure), Some(Duration::from_micros(1500)));
        assert_eq!(of_pressure("full total=7"), None);
    }
}

//! The experiment `clients`: the largest number of timely clients of `wirepath serve` on this machine, and of
//! other servers beside it.
//!
//! A step is a number of clients that play for some seconds: real RTSP or HTTP sessions of the load client
//! (`wirepath-load`), a sample of which is received and judged. The search for the largest number doubles,
//! then bisects. Steps of several servers take turns, so that a change of the machine's speed affects all
//! servers. Each step starts a server of its own and ends it.

mod case;
mod media;
mod options;
mod report;
mod result;
mod search;
mod server;
mod step;
mod verdict;

use std::path::Path;

use crate::energy::{self, EnergyMeter};
use crate::error::Error;
use crate::host;
use crate::progress::Progress;
use crate::relay::allow_descriptors;
use crate::result::LeftOut;
use crate::test_bed::{ClientBed, MOST_CLIENTS, with_client_bed};

pub use case::{ClientCase, Dimensions, MediaTransport, Processors, Storage, UnknownWord};
pub use options::{ClientOptions, Peer};
pub use report::{document, steps};
pub use result::{ClientSearch, Clients, Conditions, Figures, Limit, SCHEMA, Step};

use media::Media;
use search::Search;
use server::Contestant;
use step::Trial;

/// Clients in the first step of a peer.
const FIRST_OF_PEERS: usize = 25;

/// Seconds of media left after a step.
const TO_SPARE: f64 = 2.0;

/// Open files other than those of sessions: of the load client, and of a server, which keeps 512 in reserve
/// and has 128 sockets for the ports that sessions share.
const OTHER_DESCRIPTORS: usize = 512;
const OTHER_DESCRIPTORS_OF_SERVER: usize = 1024;

/// Open files: of the load client for judged sessions, and of a server for each session.
const JUDGED_DESCRIPTORS: usize = 300;
const SERVER_DESCRIPTORS: usize = 2;

/// Server, and the search for its limit.
struct Running {
    contestant: Contestant,
    search: Search,
    /// Number of clients to try once more.
    again: Option<usize>,
    found: ClientSearch,
}

impl Clients {
    /// Result of an experiment that begins.
    pub fn begin(program: String, started: String) -> Clients {
        Clients {
            schema: SCHEMA.to_owned(),
            program,
            started,
            seconds: 0.0,
            partial: false,
            host: host::examine(),
            conditions: Conditions::default(),
            searches: Vec::new(),
            left_out: Vec::new(),
        }
    }

    fn leave_out(&mut self, what: &str, why: &dyn std::fmt::Display) {
        self.left_out.push(LeftOut { what: what.to_owned(), why: why.to_string() });
    }
}

/// Runs the experiment and adds its findings to `result`, also before an error.
///
/// # Errors
/// Errors that end the experiment; [`Error::Stopped`] on a request to stop.
pub fn run(options: &ClientOptions, result: &mut Clients, progress: &mut dyn Progress) -> Result<(), Error> {
    let scratch = &options.scratch;
    make_scratch(scratch)?;
    let descriptors = allow_descriptors(1 << 17);
    let on_all = options.dimensions.cases().iter().any(|case| case.processors == Processors::All);
    with_client_bed(options.cpu, on_all, |bed| {
        let most = most(options, descriptors);
        result.conditions = conditions(options, bed, descriptors, most);
        let cases = options.dimensions.cases();
        let groups = case::groups(&cases);
        for (index, group) in groups.iter().enumerate() {
            let mut part = Part { progress, groups: groups.len(), index };
            compare(options, bed, group, &cases[0], result, &mut part)?;
        }
        Ok(())
    })
}

/// Makes the folder of generated files. The error names the option that chooses another one.
fn make_scratch(folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(|error| {
        let folder = folder.display();
        Error::Input(format!("cannot make the folder {folder}: {error}; name another with --scratch DIR"))
    })
}

/// Largest number of clients that the options and the limit of open files allow.
fn most(options: &ClientOptions, descriptors: u64) -> usize {
    let of_server = of_process(descriptors).saturating_mul(options.processes);
    let of_client = beside(descriptors, OTHER_DESCRIPTORS + JUDGED_DESCRIPTORS);
    options.most.min(MOST_CLIENTS).min(of_server).min(of_client)
}

/// Largest number of clients of a server that is one process.
fn of_process(descriptors: u64) -> usize {
    beside(descriptors, OTHER_DESCRIPTORS_OF_SERVER) / SERVER_DESCRIPTORS
}

/// Descriptors left for sessions after `others`.
fn beside(descriptors: u64, others: usize) -> usize {
    usize::try_from(descriptors).unwrap_or(usize::MAX).saturating_sub(others)
}

fn conditions(options: &ClientOptions, bed: &ClientBed, descriptors: u64, most: usize) -> Conditions {
    Conditions {
        window_s: options.window.as_secs_f64(),
        settle_s: options.settle.as_secs_f64(),
        ramp: options.ramp,
        buffer_ms: options.buffer.as_secs_f64() * 1000.0,
        processor: bed.processor(),
        client_processors: bed.client_processors(),
        descriptors,
        most,
        energy_packages: EnergyMeter::of_folder(Path::new(energy::FOLDER))
            .map_or_else(Vec::new, |meter| meter.names()),
        processes: options.processes,
        server_arguments: options.server_arguments.clone(),
        peers: options.peers.iter().map(|peer| (peer.name.clone(), peer.command.clone())).collect(),
    }
}

/// Searches for the limits of all servers in cases that play the same media, step by step in turns. Peers are
/// left out of cases that differ from `base` only in options of `wirepath serve`.
fn compare(
    options: &ClientOptions,
    bed: &ClientBed,
    cases: &[ClientCase],
    base: &ClientCase,
    result: &mut Clients,
    progress: &mut Part<'_>,
) -> Result<(), Error> {
    let Some(first) = cases.first() else { return Ok(()) };
    progress.at(0.0, &format!("{first}: making what is played"));
    let mut media = match &options.file {
        Some(file) => Media::of_file(&options.scratch, file)?,
        None => Media::prepare(&options.scratch, first.bits_per_second, first.assets)?,
    };
    server::pack(&mut media)?;
    let of_file = match &options.file {
        Some(_) => Some((media.names.first().cloned(), media.bits_per_second()?)),
        None => None,
    };
    server::calibrate(bed, first, &media, options)?;
    let (most, bound) = bound(options, result.conditions.most, media.seconds)?;
    let of_peers = most.min(of_process(result.conditions.descriptors));
    let mut running = Vec::new();
    for case in cases {
        let peers = options.peers.iter().filter(|_| case == base || !case.is_own_variation_of(base));
        let mut case = case.clone();
        if let Some((file, rate)) = &of_file {
            (case.file, case.bits_per_second) = (file.clone(), *rate);
        }
        running.push(Running::new(Contestant::Wirepath, &case, options.first, most));
        let peers = peers.cloned().map(Contestant::Peer);
        running.extend(peers.map(|peer| Running::new(peer, &case, options.first, of_peers)));
    }
    let trial = Trial { bed, media: &media, options, descriptors: result.conditions.descriptors };
    let outcome = take_turns(&trial, &mut running, progress)
        .and_then(|()| try_numbers_of_peers(&trial, &mut running, progress));
    for Running { contestant, mut found, search, .. } in running {
        (found.largest, found.failed) = (search.largest(), search.failed());
        found.limit = limit(&found, bound);
        let only_failures = found.steps.iter().all(|step| step.limit == Some(Limit::Server));
        // A search that a signal ended before its first step has no result.
        let Some(last) = found.steps.last() else { continue };
        if only_failures {
            result.leave_out(&format!("{} with {}", contestant.name(), found.case), &last.reason);
        }
        result.searches.push(found);
    }
    outcome
}

/// Largest number of clients in a case, and the limit that sets it. No session may reach the end of its
/// media.
fn bound(options: &ClientOptions, most: usize, media_s: f64) -> Result<(usize, Limit), Error> {
    let step_s = options.settle.as_secs_f64() + options.window.as_secs_f64() + TO_SPARE;
    if media_s < step_s {
        return Err(Error::Input(format!(
            "the media last {media_s:.0} s, and --settle and --window with {TO_SPARE} s to spare take {step_s:.0} s: \
             shorten them, or play a longer --file"
        )));
    }
    let by_media = ((media_s - step_s) * options.ramp) as usize + 1;
    Ok(match most {
        _ if by_media < most => (by_media, Limit::Media),
        _ if most < options.most => (most, Limit::Descriptors),
        _ => (most, Limit::Most),
    })
}

fn take_turns(trial: &Trial<'_>, running: &mut [Running], progress: &mut Part<'_>) -> Result<(), Error> {
    loop {
        let mut is_over = true;
        let share: f64 =
            running.iter().map(|one| one.search.progress()).sum::<f64>() / running.len().max(1) as f64;
        for one in &mut *running {
            let Some(clients) = one.next() else { continue };
            is_over = false;
            let step = one.step(trial, clients, share, progress)?;
            one.record(step);
        }
        if is_over {
            return Ok(());
        }
    }
}

/// Tries our server with the number of clients that each peer carries in the same case, so that costs are
/// compared at the same number.
fn try_numbers_of_peers(
    trial: &Trial<'_>,
    running: &mut [Running],
    progress: &mut Part<'_>,
) -> Result<(), Error> {
    let mut numbers = Vec::new();
    for (index, own) in running.iter().enumerate() {
        let is_peer = |one: &&Running| {
            matches!(one.contestant, Contestant::Peer(_)) && one.found.case == own.found.case
        };
        if matches!(own.contestant, Contestant::Wirepath) {
            let peers = running.iter().filter(is_peer);
            numbers.extend(peers.filter_map(|peer| Some((index, peer.search.largest()?))));
        }
    }
    for (index, clients) in numbers {
        let own = &mut running[index];
        // A second attempt, in case the first was late by chance.
        for _ in 0..2 {
            if own.search.largest().is_some() && own.found.timely(clients).is_none() {
                let step = own.step(trial, clients, 1.0, progress)?;
                own.found.steps.push(step);
            }
        }
    }
    Ok(())
}

impl Running {
    /// Measures one step of `clients` clients.
    fn step(
        &self,
        trial: &Trial<'_>,
        clients: usize,
        share: f64,
        progress: &mut Part<'_>,
    ) -> Result<Step, Error> {
        let name = self.contestant.name();
        progress.at(share, &format!("{}: {name} with {clients} clients", self.found.case));
        if progress.stopped() {
            return Err(Error::Stopped);
        }
        let step = trial.step(&self.contestant, &self.found.case, clients, progress)?;
        progress.note(&format!("{} {name}: {}", self.found.case, report::line(&step)));
        Ok(step)
    }

    fn new(contestant: Contestant, case: &ClientCase, first: usize, most: usize) -> Running {
        let first =
            if matches!(contestant, Contestant::Wirepath) { first } else { FIRST_OF_PEERS.min(first) };
        let found = ClientSearch {
            server: contestant.name().to_owned(),
            case: case.clone(),
            largest: None,
            failed: None,
            limit: Limit::Most,
            steps: Vec::new(),
        };
        Running { contestant, search: Search::new(first, most), again: None, found }
    }

    /// Number of clients to try next.
    fn next(&self) -> Option<usize> {
        // A server that does not start with some clients does not start with fewer either.
        let never_started = self.found.steps.iter().all(|step| step.limit == Some(Limit::Server));
        if never_started && !self.found.steps.is_empty() {
            return None;
        }
        self.again.or_else(|| self.search.next())
    }

    /// Records a step. A step that may have failed by chance is repeated once.
    fn record(&mut self, step: Step) {
        let is_repeated = self.again.take().is_some();
        use Limit::{Client, Lateness, Link, Loss, OtherPrograms, Rate, SetUp};
        let by_chance = [Lateness, Link, Loss, Rate, SetUp, Client, OtherPrograms];
        if !is_repeated && step.limit.is_some_and(|limit| by_chance.contains(&limit)) {
            self.again = Some(step.clients);
        } else {
            self.search.record(step.clients, step.limit.is_none());
        }
        self.found.steps.push(step);
    }
}

/// Limit that ended a search.
fn limit(found: &ClientSearch, bound: Limit) -> Limit {
    let of_failed = |failed: usize| {
        let steps = found.steps.iter().rev().filter(|step| step.clients == failed);
        steps.filter_map(|step| step.limit).next()
    };
    match found.failed.and_then(of_failed) {
        Some(limit) => limit,
        None if found.largest.is_none() => Limit::Server,
        None => bound,
    }
}

/// Progress of one group of cases, as a share of all groups.
struct Part<'a> {
    progress: &'a mut dyn Progress,
    groups: usize,
    index: usize,
}

impl Progress for Part<'_> {
    fn at(&mut self, share: f64, doing: &str) {
        self.progress.at((self.index as f64 + share) / self.groups as f64, doing);
    }

    fn note(&mut self, text: &str) {
        self.progress.note(text);
    }

    fn stopped(&self) -> bool {
        self.progress.stopped()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;

    fn running() -> Running {
        let case = &Dimensions::usual(true).cases()[0];
        Running::new(Contestant::Wirepath, case, 100, 1_000)
    }

    fn step(clients: usize, limit: Option<Limit>) -> Step {
        Step { clients, limit, reason: String::new(), figures: None }
    }

    /// Promise: `assess clients` repeats a failed step once if the failure may be due to chance.
    #[test]
    fn a_doubtful_step_is_tried_twice() {
        let mut running = running();
        running.record(step(100, Some(Limit::Lateness)));
        assert_eq!(running.next(), Some(100));
        running.record(step(100, None));
        assert_eq!(running.next(), Some(200));
        running.record(step(200, Some(Limit::Lateness)));
        running.record(step(200, Some(Limit::Lateness)));
        assert_eq!(running.next(), Some(140));
        running.record(step(140, Some(Limit::Processor)));
        assert_eq!(running.next(), Some(120), "saturation is no chance");
        (running.found.largest, running.found.failed) = (running.search.largest(), running.search.failed());
        assert_eq!(limit(&running.found, Limit::Most), Limit::Processor);
    }

    #[test]
    fn a_server_that_does_not_start_is_tried_once() {
        let mut running = running();
        running.record(step(100, Some(Limit::Server)));
        assert_eq!(running.next(), None);
        assert_eq!(limit(&running.found, Limit::Descriptors), Limit::Server);
    }

    /// Promise: In `assess clients` no session reaches the end of its media before the measured window ends.
    #[test]
    fn the_length_of_the_media_bounds_the_clients() {
        let options = ClientOptions {
            dimensions: Dimensions::usual(true),
            file: None,
            window: Duration::from_secs(8),
            settle: Duration::from_secs(2),
            ramp: 500.0,
            first: 200,
            most: 65_000,
            buffer: Duration::from_millis(200),
            cpu: None,
            processes: 1,
            server_arguments: Vec::new(),
            peers: Vec::new(),
            scratch: PathBuf::new(),
            calibration: PathBuf::new(),
        };
        assert_eq!(bound(&options, 65_000, 90.0).unwrap(), (39_001, Limit::Media));
        assert_eq!(bound(&options, 20_000, 90.0).unwrap(), (20_000, Limit::Descriptors));
        assert_eq!(bound(&options, 65_000, 1_000.0).unwrap(), (65_000, Limit::Most));
        let short = bound(&options, 65_000, 11.9).unwrap_err();
        assert!(matches!(&short, Error::Input(why) if why.contains("--window")), "{short}");
    }
}

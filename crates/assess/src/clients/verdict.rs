//! Criterion for timely clients, and the limit reached: a pure function of figures.

use std::time::Duration;

use wirepath_load::LEAST_PACE;

use super::case::{MediaTransport, Processors, Storage};
use super::result::{Figures, Limit};

/// Allowed lateness beyond a burst, for 99 % of the bursts and for all bursts.
const P99_BEYOND_MS: f64 = 5.0;
const MOST_BEYOND_MS: f64 = 30.0;

/// Used share of its processors from which a server is saturated.
const SATURATED: f64 = 0.93;

/// Share of the server's processor that other programs may use.
const OTHERS: f64 = 0.1;

/// Share of the window with waits for storage from which storage is the limit.
const STORAGE_WAITS: f64 = 0.2;

/// Share of expected bytes sent to sessions outside the sample, below which packets are missing.
const SENT: f64 = 0.9;

/// Free descriptors at which a server has none left for sessions: the reserve of `wirepath serve`, or one in
/// `LEFT` of the limit.
const RESERVE: u64 = 512;
const LEFT: u64 = 20;

/// Lateness of the load client's event loops, and share of its processors, from which the load client is the
/// limit.
const CLIENT_LATE_MS: f64 = 20.0;
const CLIENT_BUSY: f64 = 0.9;

/// Conditions of the criterion other than figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) clients: usize,
    /// Longest burst that the server may send.
    pub(crate) burst: Duration,
    /// Processors of the server.
    pub(crate) processors: usize,
    pub(crate) kind: Processors,
    pub(crate) client_processors: usize,
    pub(crate) storage: Storage,
    pub(crate) transport: MediaTransport,
    /// Limit of open files of a process.
    pub(crate) descriptors: u64,
}

/// Returns the limit reached and the failure in words; `None` if all clients were timely.
pub(crate) fn judge(figures: &Figures, terms: &Terms) -> Option<(Limit, String)> {
    let symptom = symptom(figures, terms)?;
    let (limit, cause) = cause(figures, terms, symptom.0);
    Some((limit, if cause.is_empty() { symptom.1 } else { format!("{}; {cause}", symptom.1) }))
}

/// First failed part of the criterion in words, and the limit if nothing else explains the failure.
fn symptom(figures: &Figures, terms: &Terms) -> Option<(Limit, String)> {
    let burst_ms = terms.burst.as_secs_f64() * 1000.0;
    let reason = || figures.failure.clone().unwrap_or_default();
    let beyond = |ms: Option<f64>, allowed: f64| ms.filter(|ms| *ms > burst_ms + allowed);
    if figures.refused > 0 {
        return Some((Limit::Admission, format!("{} sessions refused: {}", figures.refused, reason())));
    }
    if figures.failed > 0 {
        return Some((Limit::SetUp, format!("{} sessions failed: {}", figures.failed, reason())));
    }
    if figures.playing < terms.clients as u64 {
        return Some((
            Limit::SetUp,
            format!("{} of {} sessions played in time", figures.playing, terms.clients),
        ));
    }
    if figures.lost > 0 {
        return Some((Limit::Loss, format!("{} judged packets lost", figures.lost)));
    }
    if let Some(share) = figures.least_pace.filter(|share| *share < LEAST_PACE) {
        return Some((Limit::Rate, format!("a session received only {} of its rate", percent_below(share))));
    }
    if let Some(share) = figures.sent_share.filter(|share| *share < SENT) {
        return Some((Limit::Loss, format!("only {} of the media sent", percent_below(share))));
    }
    if let Some(ms) = beyond(figures.lateness_p99_ms, P99_BEYOND_MS) {
        return Some((Limit::Lateness, format!("99 % of the bursts at most {ms:.0} ms late")));
    }
    if let Some(ms) = beyond(figures.lateness_max_ms, MOST_BEYOND_MS) {
        return Some((Limit::Lateness, format!("a burst {ms:.0} ms late")));
    }
    if figures.timely < figures.judged || figures.judged == 0 {
        return Some((
            Limit::Lateness,
            format!("{} of {} judged sessions timely", figures.timely, figures.judged),
        ));
    }
    None
}

/// Share in percent, rounded down, so that a share below a limit is not shown as the limit.
fn percent_below(share: f64) -> String {
    format!("{:.1} %", (share * 1000.0).floor() / 10.0)
}

/// Limit that caused a symptom, and the evidence.
fn cause(figures: &Figures, terms: &Terms, symptom: Limit) -> (Limit, String) {
    let available = terms.processors as f64;
    if matches!(symptom, Limit::Admission | Limit::SetUp)
        && let Some(open) = figures.descriptors.filter(|open| has_no_descriptors(*open, terms.descriptors))
    {
        return (
            Limit::Descriptors,
            format!("a process of the server has {open} of {} open files", terms.descriptors),
        );
    }
    if figures.failure.as_deref().is_some_and(|reason| reason.contains("Too many open files")) {
        return (Limit::Descriptors, "the load client has no more open files".to_owned());
    }
    if figures.processors() >= SATURATED * available {
        return (
            Limit::Processor,
            format!("the server used {:.2} of {available} processors", figures.processors()),
        );
    }
    if symptom == Limit::Admission {
        return (symptom, String::new());
    }
    if figures.client_drops > 0 {
        return (Limit::Client, format!("the client's sockets dropped {}", figures.client_drops));
    }
    if let Some(late) = figures.client_late_p99_ms.filter(|late| *late > CLIENT_LATE_MS) {
        return (Limit::Client, format!("the client's event loops were {late:.0} ms late"));
    }
    if terms.transport == MediaTransport::Tcp
        && symptom == Limit::Lateness
        && let Some(late) = client_delay(figures, terms)
    {
        return (Limit::Client, format!("the client's event loops, which read TCP, were {late:.0} ms late"));
    }
    if terms.kind == Processors::One
        && figures.client_processors > CLIENT_BUSY * terms.client_processors as f64
    {
        return (Limit::Client, format!("the client used {:.2} processors", figures.client_processors));
    }
    if figures.link_drops > 0 && symptom != Limit::SetUp {
        return (Limit::Link, format!("{} sends found devices or socket buffers full", figures.link_drops));
    }
    if let Some(others) = figures.others.filter(|others| *others > OTHERS) {
        return (Limit::OtherPrograms, format!("others used {others:.2} of the server's processor"));
    }
    if let (Storage::Disk, Some(waits)) = (terms.storage, figures.storage_waits)
        && waits > STORAGE_WAITS
    {
        return (Limit::Disk, format!("waits for storage in {:.0} % of the time", waits * 100.0));
    }
    (symptom, String::new())
}

/// Returns whether a process with this many open files has no descriptors left for sessions.
fn has_no_descriptors(open: u64, limit: u64) -> bool {
    let reserve = if limit > LEFT * RESERVE { RESERVE } else { 0 };
    limit.saturating_sub(open) <= reserve.max(limit / LEFT)
}

/// Lateness of the load client that exceeds the allowance of bursts. Over TCP, packets arrive when they are
/// read.
fn client_delay(figures: &Figures, terms: &Terms) -> Option<f64> {
    let p99_allowed = terms.burst.as_secs_f64() * 1000.0 + P99_BEYOND_MS;
    match figures.lateness_p99_ms {
        Some(p99) if p99 > p99_allowed => figures.client_late_p99_ms.filter(|late| *late > P99_BEYOND_MS),
        _ => figures.client_late_max_ms.filter(|late| *late > MOST_BEYOND_MS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms {
        clients: 100,
        burst: Duration::from_millis(100),
        processors: 1,
        kind: Processors::One,
        client_processors: 1,
        storage: Storage::Memory,
        transport: MediaTransport::Udp,
        descriptors: 20_000,
    };

    fn timely() -> Figures {
        Figures {
            window_s: 8.0,
            judged: 10,
            timely: 10,
            playing: 100,
            lateness_p99_ms: Some(104.0),
            lateness_max_ms: Some(129.0),
            sent_share: Some(1.0),
            user_s: 1.0,
            system_s: 2.0,
            ..Figures::default()
        }
    }

    fn limit(figures: Figures) -> Option<Limit> {
        judge(&figures, &TERMS).map(|(limit, _)| limit)
    }

    /// Promise: `assess clients` calls clients timely if no client lost a packet and the server sent all
    /// media in time.
    #[test]
    fn clients_are_timely_within_a_burst_and_a_little() {
        assert_eq!(limit(timely()), None);
        assert_eq!(limit(Figures { lateness_p99_ms: Some(105.1), ..timely() }), Some(Limit::Lateness));
        assert_eq!(limit(Figures { lateness_max_ms: Some(130.1), ..timely() }), Some(Limit::Lateness));
        assert_eq!(limit(Figures { timely: 9, ..timely() }), Some(Limit::Lateness));
        assert_eq!(limit(Figures { judged: 0, timely: 0, ..timely() }), Some(Limit::Lateness));
        assert_eq!(limit(Figures { lost: 1, ..timely() }), Some(Limit::Loss));
        assert_eq!(limit(Figures { sent_share: Some(0.5), ..timely() }), Some(Limit::Loss));
        assert_eq!(limit(Figures { least_pace: Some(0.91), ..timely() }), None);
        assert_eq!(limit(Figures { playing: 99, ..timely() }), Some(Limit::SetUp));
    }

    /// Promise: `assess clients` calls no client timely that receives less than 0.9 of its media's rate.
    #[test]
    fn clients_that_are_sent_too_little_are_not_timely() {
        let verdict = |share| judge(&Figures { least_pace: Some(share), ..timely() }, &TERMS).unwrap();
        assert_eq!(verdict(0.35), (Limit::Rate, "a session received only 35.0 % of its rate".to_owned()));
        assert_eq!(verdict(0.8996), (Limit::Rate, "a session received only 89.9 % of its rate".to_owned()));
    }

    /// Promise: `assess clients` does not report a limit of the load client as a limit of the server.
    #[test]
    fn a_late_client_is_not_a_late_server() {
        let late = Figures { lateness_p99_ms: Some(150.0), ..timely() };
        let client = Figures { client_late_p99_ms: Some(21.0), ..late.clone() };
        assert_eq!(limit(client.clone()), Some(Limit::Client));
        assert_eq!(limit(Figures { client_drops: 1, ..late.clone() }), Some(Limit::Client));
        assert_eq!(limit(Figures { client_processors: 0.95, ..late.clone() }), Some(Limit::Client));
        let busy = Figures { user_s: 3.0, system_s: 5.0, ..client };
        assert_eq!(limit(busy), Some(Limit::Processor), "a saturated server is the limit all the same");
        // Limits of the load client matter only if sessions were not timely.
        assert_eq!(limit(Figures { client_late_p99_ms: Some(21.0), ..timely() }), None);
        assert_eq!(limit(Figures { others: Some(0.2), ..late }), Some(Limit::OtherPrograms));
    }

    /// Promise: Over TCP, `assess clients` does not count the load client's delay as lateness of the server.
    #[test]
    fn a_client_that_reads_late_makes_bursts_late() {
        let limit = |figures: &Figures, transport| judge(figures, &Terms { transport, ..TERMS }).unwrap().0;
        let burst = Figures { lateness_max_ms: Some(150.0), client_late_max_ms: Some(40.0), ..timely() };
        let bursts = Figures { lateness_p99_ms: Some(110.0), client_late_p99_ms: Some(8.0), ..timely() };
        for late in [&burst, &bursts] {
            assert_eq!(limit(late, MediaTransport::Tcp), Limit::Client);
            assert_eq!(
                limit(late, MediaTransport::Udp),
                Limit::Lateness,
                "times of arrival are the kernel's"
            );
        }
        let other = Figures { client_late_max_ms: Some(29.0), client_late_p99_ms: Some(4.0), ..burst };
        assert_eq!(limit(&other, MediaTransport::Tcp), Limit::Lateness);
    }

    /// Promise: `assess clients` distinguishes a full link, and a server without free descriptors, from
    /// lateness.
    #[test]
    fn full_links_and_lacking_descriptors_are_limits() {
        let full = Figures { link_drops: 3, ..timely() };
        assert_eq!(limit(full.clone()), None, "a send that was tried again harmed nobody");
        assert_eq!(limit(Figures { lost: 2, ..full.clone() }), Some(Limit::Link));
        assert_eq!(limit(Figures { lateness_p99_ms: Some(150.0), ..full.clone() }), Some(Limit::Link));
        let saturated = Figures { lost: 2, user_s: 3.0, system_s: 5.0, ..full };
        assert_eq!(limit(saturated), Some(Limit::Processor));
        let refused = Figures {
            refused: 3,
            failed: 3,
            failure: Some("SETUP was refused: 453 Not Enough Bandwidth".to_owned()),
            ..timely()
        };
        assert_eq!(limit(Figures { descriptors: Some(19_100), ..refused.clone() }), Some(Limit::Descriptors));
        assert_eq!(limit(Figures { descriptors: Some(12_000), ..refused }), Some(Limit::Admission));
    }

    #[test]
    fn refusals_and_descriptors_are_told_from_lateness() {
        let failed = |reason: &str| Figures { failed: 3, failure: Some(reason.to_owned()), ..timely() };
        let refused = Figures { refused: 3, ..failed("SETUP was refused: 453 Not Enough Bandwidth") };
        let (limit, why) = judge(&refused, &TERMS).unwrap();
        assert!(limit == Limit::Admission && why.contains("453"), "{why}");
        let descriptors = judge(&failed("connecting failed: Too many open files"), &TERMS).unwrap();
        assert_eq!(descriptors.0, Limit::Descriptors);
        assert_eq!(judge(&failed("PLAY was not answered in time"), &TERMS).unwrap().0, Limit::SetUp);
        let before_the_window = Figures { playing: 0, window_s: 0.0, ..refused };
        assert_eq!(judge(&before_the_window, &TERMS).unwrap(), (limit, why), "all sessions were refused");
        let disk = Terms { storage: Storage::Disk, ..TERMS };
        let waiting = Figures { lateness_p99_ms: Some(150.0), storage_waits: Some(0.3), ..timely() };
        assert_eq!(judge(&waiting, &disk).unwrap().0, Limit::Disk);
    }
}

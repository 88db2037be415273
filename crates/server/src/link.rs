//! Speed of the network cards that sessions are sent over, as reported by the kernel.

use std::fs;
use std::path::Path;

/// Total speed in bits per second of this machine's network cards that are up. None if the speed of any card
/// is unknown, as for most virtual cards, or if there is no card. Loopback, veth, bridges and other devices
/// without hardware do not count: they have no speed, or one that limits nothing. Logs the result.
pub(crate) fn bits_per_second() -> Option<u64> {
    // Lists devices of this network namespace; sysfs may show those of another.
    let here = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let names: Vec<&str> = here.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    let (cards, speed) = speed_of(Path::new("/sys/class/net"), &names);
    match speed {
        Some(bits) => tracing::info!(?cards, megabits_per_second = bits / 1_000_000, "speed of the links"),
        None => tracing::info!(
            ?cards,
            "the speed of the links is unknown: set --max-rate to limit the sessions' bit rate"
        ),
    }
    speed
}

/// Network cards in a folder like `/sys/class/net` that are up, and their total speed if all have one.
fn speed_of<'a>(folder: &Path, names: &[&'a str]) -> (Vec<&'a str>, Option<u64>) {
    let read = |name: &str, what: &str| fs::read_to_string(folder.join(name).join(what));
    let is_card = |name: &&str| folder.join(name).join("device").exists();
    let is_up = |name: &&str| read(name, "operstate").is_ok_and(|state| state.trim() == "up");
    let cards: Vec<&str> = names.iter().copied().filter(is_card).filter(is_up).collect();
    // Megabits; -1 if it is not known.
    let speeds = cards.iter().map(|name| read(name, "speed").ok()?.trim().parse::<u64>().ok());
    let speed: Option<u64> = speeds.map(|speed| speed.filter(|speed| *speed > 0)).sum();
    let speed = speed.filter(|_| !cards.is_empty()).map(|megabits| megabits.saturating_mul(1_000_000));
    (cards, speed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: The speed of the active network cards limits sessions, unless the speed of one is unknown.
    #[test]
    fn cards_have_a_speed() {
        let folder = tempfile::tempdir().unwrap();
        let device = |name: &str, is_card: bool, state: &str, speed: Option<&str>| {
            let place = folder.path().join(name);
            fs::create_dir_all(place.join(if is_card { "device" } else { "power" })).unwrap();
            fs::write(place.join("operstate"), format!("{state}\n")).unwrap();
            if let Some(speed) = speed {
                fs::write(place.join("speed"), format!("{speed}\n")).unwrap();
            }
        };
        device("lo", false, "unknown", None);
        device("veth0", false, "up", Some("10000"));
        device("eth0", true, "up", Some("1000"));
        device("eth1", true, "up", Some("2500"));
        device("eth2", true, "down", Some("-1"));
        device("virt0", true, "up", Some("-1"));
        let speed = |names: &[&str]| speed_of(folder.path(), names).1;
        assert_eq!(speed(&["lo", "veth0"]), None);
        assert_eq!(speed(&["lo", "veth0", "eth0", "eth2"]), Some(1_000_000_000));
        assert_eq!(speed(&["eth0", "eth1"]), Some(3_500_000_000));
        assert_eq!(speed(&["eth0", "virt0"]), None, "more may leave by the other");
        assert_eq!(speed(&["none"]), None);
        assert_eq!(speed_of(folder.path(), &["lo", "eth0", "eth2"]).0, ["eth0"]);
    }
}

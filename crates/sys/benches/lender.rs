//! Cost of guarded loans by size: `cargo bench -p wirepath-sys --bench lender`, as root.
//!
//! Processor time of the process, including the serving thread, in alternating paired rounds: a send that
//! copies and a send that lends (UDP in segments of 1,472 bytes, to a device that drops, in a network
//! namespace), and the parts of a loan: protecting and unprotecting, and writing to all of the memory during
//! the loan.

#![expect(clippy::unwrap_used, reason = "a benchmark stops where it cannot go on")]

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::Command;

use rustix::time::{ClockId, clock_gettime};
use wirepath_sys::lender::Lender;
use wirepath_sys::write_guard::WriteGuard;

const ROUNDS: usize = 41;
/// Indexes of the 95 % interval of the median in the sorted rounds.
const INTERVAL: [usize; 2] = [14, 27];
/// Bytes of a round.
const VOLUME: usize = 8 << 20;
/// Bytes of memory, so large that a range is uncached when it is sent again.
const COLD: usize = 256 << 20;
/// Maximum number of bytes of a segmented send.
const MOST_SEGMENTED: usize = 60 * 1024;

fn main() {
    prepare_device();
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("10.88.0.2:9").unwrap();
    socket.set_nonblocking(true).unwrap();
    wirepath_sys::socket::set_segment(socket.as_fd(), 1472).unwrap();
    let mut lender = Lender::new().unwrap();
    let guard = WriteGuard::of_process().unwrap();
    println!("µs of processor time per send; ratios: median of {ROUNDS} pairs (95 % interval)");
    println!("  bytes      copy      lend  lend/copy             guard    memcpy  written while lent / not");
    let cold = vec![1_u8; COLD];
    for size in [4, 8, 12, 16, 24, 32, 48, 60, 128, 256, 512, 1024].map(|kibibytes| kibibytes << 10) {
        let mut bytes = vec![1_u8; size + 4096];
        let start = bytes.as_ptr().align_offset(4096);
        let bytes = &mut bytes[start..start + size];
        let repeats = (VOLUME / size).max(4);
        let sends = (size <= MOST_SEGMENTED).then(|| {
            pairs(
                repeats,
                || assert_eq!(socket.send(bytes).unwrap(), size),
                || assert_eq!(lender.send(socket.as_fd(), bytes, 0), Ok(Some(size))),
            )
        });
        let cold_sends = (size <= MOST_SEGMENTED).then(|| {
            let mut slices = cold.chunks_exact(size.next_multiple_of(4096)).cycle();
            let mut more = cold.chunks_exact(size.next_multiple_of(4096)).rev().cycle();
            pairs(
                repeats,
                || assert_eq!(socket.send(&slices.next().unwrap()[..size]).unwrap(), size),
                || {
                    let sent = lender.send(socket.as_fd(), &more.next().unwrap()[..size], 0);
                    assert_eq!(sent, Ok(Some(size)));
                },
            )
        });
        let mut other = vec![0_u8; size];
        let parts = pairs(
            repeats,
            || other.copy_from_slice(std::hint::black_box(bytes)),
            || guard.over(guard.enter(bytes).unwrap()),
        );
        let pointer = bytes.as_mut_ptr();
        let writes = pairs(
            (repeats / 8).max(4),
            || write_all(pointer, size),
            || {
                // SAFETY: nobody else uses the bytes meanwhile.
                let guarded = guard.enter(unsafe { std::slice::from_raw_parts(pointer, size) }).unwrap();
                write_all(pointer, size);
                guard.over(guarded);
            },
        );
        print!("{size:7}");
        match sends {
            Some(sends) => print!(" {:9.2} {:9.2}  {}", sends.first_us, sends.second_us, sends.ratio()),
            None => print!("         -         -  -               "),
        }
        if let Some(sends) = cold_sends {
            print!("  cold: {:.2} {:.2} {}", sends.first_us, sends.second_us, sends.ratio());
        }
        println!(
            "  {:9.2} {:9.2}  {:.1} / {:.1}",
            parts.second_us, parts.first_us, writes.second_us, writes.first_us
        );
    }
}

fn write_all(start: *mut u8, length: usize) {
    // SAFETY: the range is the caller's, who does not use it meanwhile.
    std::hint::black_box(unsafe { std::slice::from_raw_parts_mut(start, length) }).fill(7);
}

/// Two measurements that alternate.
struct Pairs {
    first_us: f64,
    second_us: f64,
    ratios: Vec<f64>,
}

impl Pairs {
    fn ratio(&self) -> String {
        let [low, high] = INTERVAL.map(|place| self.ratios[place]);
        format!("{:.3} ({low:.3} to {high:.3})", self.ratios[ROUNDS / 2])
    }
}

fn pairs(repeats: usize, mut first: impl FnMut(), mut second: impl FnMut()) -> Pairs {
    let (mut firsts, mut seconds, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // The first round is a warm-up.
    for round in 0..=ROUNDS {
        let (one, other) = match round % 2 {
            0 => (time_us(repeats, &mut first), time_us(repeats, &mut second)),
            _ => {
                let other = time_us(repeats, &mut second);
                (time_us(repeats, &mut first), other)
            }
        };
        if round > 0 {
            firsts.push(one);
            seconds.push(other);
            ratios.push(other / one);
        }
    }
    for list in [&mut firsts, &mut seconds, &mut ratios] {
        list.sort_by(f64::total_cmp);
    }
    Pairs { first_us: firsts[ROUNDS / 2], second_us: seconds[ROUNDS / 2], ratios }
}

fn time_us(repeats: usize, run: &mut impl FnMut()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    };
    let before = now();
    (0..repeats).for_each(|_| run());
    (now() - before) / repeats as f64
}

/// Creates a device that drops all packets, in a network namespace of this thread.
fn prepare_device() {
    wirepath_sys::namespace::leave_network().unwrap();
    for command in [
        "ip link add sink type ifb",
        "ip link set sink up",
        "ip addr add 10.88.0.1/24 dev sink",
        "ip neigh add 10.88.0.2 lladdr 02:00:00:00:00:02 dev sink nud permanent",
    ] {
        assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
    }
}

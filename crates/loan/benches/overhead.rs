//! Cost of the library where it does not lend, or the kernel copies: `cargo bench -p wirepath-loan --bench overhead`,
//! as root, about two minutes.
//!
//! A program that sends, once with the library and once without, in alternating pairs: processor time of the whole
//! process, from its start to its end. Loopback copies what is lent to it, so sends above the least size are the
//! worst case: the library lends until it has noticed.

#![expect(clippy::unwrap_used, reason = "a benchmark stops where it cannot go on")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;

use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 31;
/// Indexes of the 99 % interval of the median in the sorted rounds (sign test).
const INTERVAL: [usize; 2] = [7, 23];
/// Bytes that a program sends.
const VOLUME: usize = 256 << 20;
/// Connections of a program that opens many.
const CONNECTIONS: usize = 64;

/// Names of the cases, and bytes of a send.
const CASES: [(&str, usize); 10] = [
    ("tcp", 4 << 10),
    ("tcp", 64 << 10),
    ("tcp", 255 << 10),
    ("tcp", 256 << 10),
    ("tcp", 1 << 20),
    ("tcp-rewritten", 256 << 10),
    ("tcp-rewritten", 1 << 20),
    ("tcp-connections", 1 << 20),
    ("udp", 60 << 10),
    ("pipe", 1 << 20),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, case, size, port] = &arguments[..]
        && role == "send"
    {
        send(case, size.parse().unwrap(), port.parse().unwrap());
        let time = clock_gettime(ClockId::ProcessCPUTime);
        eprint!("{}", time.tv_sec as f64 + time.tv_nsec as f64 / 1e9);
        return;
    }
    prepare_network();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || discard(stream.unwrap()));
        }
    });
    println!("processor time with the library relative to without: median of {ROUNDS} pairs (99 % interval)");
    println!("case                  bytes  without    ratio");
    for (case, size) in CASES {
        let (mut withouts, mut ratios) = (Vec::new(), Vec::new());
        // The first round is a warm-up.
        for round in 0..=ROUNDS {
            let with_first = (round % 2 == 1).then(|| run(case, size, port, true));
            let without = run(case, size, port, false);
            let with = with_first.unwrap_or_else(|| run(case, size, port, true));
            if round > 0 {
                withouts.push(without);
                ratios.push(with / without);
            }
        }
        withouts.sort_by(f64::total_cmp);
        ratios.sort_by(f64::total_cmp);
        let [low, high] = INTERVAL.map(|place| ratios[place]);
        let (without, ratio) = (withouts[ROUNDS / 2], ratios[ROUNDS / 2]);
        println!("{case:16} {size:10} {without:7.3}s    {ratio:.3} ({low:.3} to {high:.3})");
    }
}

/// Runs the program; returns its processor time in seconds.
fn run(case: &str, size: usize, port: u16, with_library: bool) -> f64 {
    let program = std::env::current_exe().unwrap();
    let library = program.with_file_name("libwirepath_loan.so");
    assert!(library.exists(), "{} is missing", library.display());
    let mut command = Command::new(program);
    command.args(["send", case, &size.to_string(), &port.to_string()]);
    command.env_remove("WIREPATH_LOAN_MIN_BYTES").env_remove("LD_PRELOAD");
    if with_library {
        command.env("LD_PRELOAD", library);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    discard(child.stdout.take().unwrap());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{case} of {size} bytes: {text}");
    text.parse().unwrap_or_else(|_| panic!("{case} of {size} bytes: {text}"))
}

/// Reads all, and drops it.
fn discard(mut from: impl Read) {
    let mut buffer = vec![0; 1 << 20];
    // A reset ends a connection, too.
    while from.read(&mut buffer).is_ok_and(|length| length > 0) {}
}

/// The program.
fn send(case: &str, size: usize, port: u16) {
    let mut buffer = vec![1_u8; size];
    let sends = VOLUME / size;
    let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    match case {
        "tcp" => {
            let mut stream = connect();
            (0..sends).for_each(|_| stream.write_all(&buffer).unwrap());
        }
        "tcp-rewritten" => {
            let mut stream = connect();
            for number in 0..sends {
                buffer.fill(number as u8);
                stream.write_all(&buffer).unwrap();
            }
        }
        "tcp-connections" => {
            let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect()).collect();
            (0..sends).for_each(|number| streams[number % CONNECTIONS].write_all(&buffer).unwrap());
        }
        "udp" => {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.connect("10.88.0.2:9").unwrap();
            (0..sends).for_each(|_| assert_eq!(socket.send(&buffer).unwrap(), size));
        }
        "pipe" => {
            let output = std::io::stdout();
            let mut pipe = File::from(rustix::io::dup(&output).unwrap());
            (0..sends).for_each(|_| pipe.write_all(&buffer).unwrap());
        }
        _ => panic!("no case {case}"),
    }
}

/// A network namespace with loopback, and a device that drops all packets.
fn prepare_network() {
    wirepath_sys::namespace::leave_network().unwrap();
    for command in [
        "ip link set lo up",
        "ip link add sink type ifb",
        "ip link set sink mtu 65000 up", // datagrams in fragments are copied
        "ip addr add 10.88.0.1/24 dev sink",
        "ip neigh add 10.88.0.2 lladdr 02:00:00:00:00:02 dev sink nud permanent",
    ] {
        assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
    }
}

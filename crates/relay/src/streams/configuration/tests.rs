use wirepath_engine::{Policy, Round};

use super::sharing::{DEFAULT_CARRY_PERCENT, DEFAULT_ROUND_BYTES, DEFAULT_ROUND_US};
use super::*;
use crate::streams::spec::{FramingSpec, HandlerSpec};

const STREAM: &str = "[[stream]]\nname = \"one\"\nin = [\"-\"]\nout = [\"file:copy\"]\n";

fn from_text(text: &str) -> Result<Configuration, ConfigurationError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.toml");
    std::fs::write(&path, text).unwrap();
    Configuration::from_file(&path)
}

#[test]
fn classes_and_streams_are_what_the_file_says() {
    let text = r#"
        [sharing]
        policy = "fair-share"
        round = "1MiB"
        carry = 20
        [[class]]
        name = "live"
        priority = 7
        share = 3
        rate = "80Mbit/s"
        burst = "64KiB"
        [[class]]
        name = "rest"
        [[stream]]
        name = "copy"
        class = "rest"
        rate = "1MB/s"
        in = ["file:a"]
        out = ["file:b", "unix:/run/c"]
        framing = "ts"
        order = "roundrobin"
        pattern = "stripe"
        handlers = ["crc32c", "seal:key"]
        when-full = "drop-oldest"
    "#;
    let configuration =
        Configuration::from_text(text, Path::new("/etc/x")).map_err(|wrong| wrong.what).unwrap();
    let Sharing { policy, classes } = &configuration.sharing;
    assert_eq!(*policy, Policy::FairShare { round: Round::Volume(1 << 20), carry_percent: 20 });
    let rate = Some(Rate { per_second: 10_000_000, burst: 65_536 });
    let live = Class { name: "live".to_owned(), priority: 7, share: 3, rate };
    let rest = Class { name: "rest".to_owned(), priority: 0, share: 1, rate: None };
    assert_eq!(classes, &[live, rest]);
    let [copy] = &configuration.streams[..] else { panic!("one stream") };
    assert_eq!((copy.name.as_str(), copy.class, configuration.class_name(copy)), ("copy", 1, "rest"));
    assert_eq!(copy.rate, Some(Rate { per_second: 1_000_000, burst: 100_000 }));
    let outputs: Vec<String> = copy.config.outputs.iter().map(ToString::to_string).collect();
    assert_eq!(
        (copy.config.inputs[0].to_string().as_str(), &outputs[..]),
        ("file:/etc/x/a", &["file:/etc/x/b".to_owned(), "unix:/run/c".to_owned()][..])
    );
    assert_eq!(copy.config.framing, FramingSpec::TransportStream);
    assert_eq!(copy.config.handlers, [HandlerSpec::Checksum, HandlerSpec::Seal("/etc/x/key".into())]);
}

#[test]
fn what_is_not_said_is_as_for_the_command() {
    let configuration = from_text(STREAM).unwrap();
    assert_eq!(configuration.sharing.policy, Policy::BestEffort);
    let stream = &configuration.streams[0];
    assert_eq!((stream.class, configuration.class_name(stream), stream.rate), (0, "", None));
    assert_eq!(stream.config.framing, FramingSpec::Whole);
}

/// Promise: A scheduling round in the wrong unit is an error with the remedy.
#[test]
fn a_round_is_of_what_is_shared() {
    let policy = |lines: &str| {
        let text = format!("[sharing]\npolicy = \"fair-share\"\n{lines}\n");
        let Policy::FairShare { round, .. } = from_text(&text).unwrap().sharing.policy else { panic!() };
        round
    };
    assert_eq!(policy("round = \"1MiB\""), Round::Volume(1 << 20));
    assert_eq!(policy("resource = \"volume\""), Round::Volume(DEFAULT_ROUND_BYTES));
    assert_eq!(policy("resource = \"cpu\"\nround = \"2ms\""), Round::ProcessorTime(2000));
    assert_eq!(policy("resource = \"cpu\""), Round::ProcessorTime(DEFAULT_ROUND_US));
}

/// Promise: The example configuration is valid.
#[test]
fn the_example_is_right() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/relay.toml");
    let configuration = Configuration::from_file(&path).unwrap();
    let [live, archive] = &configuration.sharing.classes[..] else { panic!("two classes") };
    assert_eq!(
        (live.share, archive.share, archive.rate.map(|rate| rate.per_second)),
        (3, 1, Some(50_000_000))
    );
    let [reflector, recording] = &configuration.streams[..] else { panic!("two streams") };
    assert_eq!((configuration.class_name(reflector), reflector.config.outputs.len()), ("live", 2));
    assert_eq!((configuration.class_name(recording), recording.config.handlers.len()), ("archive", 2));
    assert_eq!((reflector.deadline, recording.deadline), (Some(Duration::from_millis(20)), None));
    // The example shows the default values.
    let usual = StreamConfig::default();
    let StreamConfig { framing, order, pattern, handlers, .. } = &reflector.config;
    assert_eq!(
        (framing, order, pattern, handlers),
        (&usual.framing, &usual.order, &usual.pattern, &usual.handlers)
    );
    let said =
        Policy::FairShare { round: Round::Volume(DEFAULT_ROUND_BYTES), carry_percent: DEFAULT_CARRY_PERCENT };
    assert_eq!(configuration.sharing.policy, said);
}

/// Lines behind a stream, the line that is named, and the problem.
const BEHIND: &[(&str, u32, &str)] = &[
    ("framin = \"ts\"", 5, "unknown key `framin`: did you mean `framing`?"),
    ("when_full = \"drop\"", 5, "unknown key `when_full`: did you mean `when-full`?"),
    ("framing = \"tss\"", 5, "unknown framing \"tss\": expected whole"),
    ("order = \"sorted\"", 5, "unknown order \"sorted\""),
    ("pattern = \"all\"", 5, "unknown pattern \"all\""),
    ("when-full = \"wait\"", 5, "unknown reaction \"wait\": expected block"),
    ("handlers = [\n\"meter\",\n\"rot13\"]", 7, "unknown handler \"rot13\""),
    ("rate = \"fast\"", 5, "invalid rate fast: expected bits such as"),
    ("rate = 5", 5, "expected a string"),
    ("deadline = \"soon\"", 5, "invalid deadline soon: expected a time up to 1h, such as 20ms"),
    ("deadline = \"0s\"", 5, "invalid deadline 0s"),
    ("class = \"live\"", 5, "unknown class live; declare it with [[class]] and name = \"live\""),
    ("pattern = \"shares:2\"", 1, "needs at least 2 outputs: 1 configured"),
    ("output-handlers = [\"2:meter\"]", 1, "handler of output 2: 1 outputs are configured"),
    ("output-handlers = [\"meter\"]", 5, "expected NUMBER:HANDLER, such as 2:begins:ERROR"),
    ("order = \"shares:2\"", 1, "shares over a stream of bytes need --framing fixed:BYTES"),
    (
        "[[stream]]\nname = \"b\"\nin = [\"file:a\"]\nout = [\"udp://@a:1\"]",
        8,
        "udp://@a:1: udp://@ receives datagrams",
    ),
    ("name = \"two\"", 5, "duplicate key"),
    ("]", 5, ""),
    ("[[stream]]\nname = \"b\"\nin = [\"-\"]\nout = [\"file:b\"]", 5, "standard input (-) is read twice"),
    (
        "[[stream]]\nname = \"b\"\nin = [\"file:a\"]\nout = [\"file:copy?append\"]",
        5,
        "copy is written to twice; give each output its own file",
    ),
    (
        "[[stream]]\nname = \"b\"\nin = [\"file:a\"]\nout = [\"file:./copy\"]",
        5,
        "copy is written to twice; give each output its own file",
    ),
    (
        "[[stream]]\nname = \"b\"\nin = [\"tcp://:80?listen\"]\nout = [\"tcp://:80?listen\"]",
        5,
        "tcp://:80 is listened on twice",
    ),
    ("[[stream]]\nname = \"b\"\nin = [\"file:a?append\"]\nout = [\"file:b\"]", 7, "remove it from an input"),
    ("[[stream]]\nname = \"one\"\nin = [\"file:a\"]\nout = [\"file:b\"]", 6, "duplicate stream name one"),
    (
        "[[stream]]\nname = \"b\"\nin = []\nout = [\"file:b\"]",
        7,
        "in is empty: expected at least one address",
    ),
    (
        "[[stream]]\nname = \"b\"\nin = [\"a.ts\"]\nout = [\"file:b\"]",
        7,
        "a.ts: invalid address; for a file write file:",
    ),
    ("[[stream]]\nname = \"b\"\nin = [\"file:a\"]", 5, "missing key out; a [[stream]] needs name, in and"),
    ("[[stream]]\nname = \"b\"\nout = [\"file:a\"]", 5, "missing key in;"),
    ("[[stream]]\nin = [\"file:a\"]\nout = [\"file:b\"]", 5, "missing key name"),
    (
        "[[stream]]\nname = \"b\"\nin = \"file:a\"\nout = [\"file:b\"]",
        7,
        "in: expected a list: write in = [\"file:a\"]",
    ),
    ("handlers = \"meter\"", 5, "handlers: expected a list: write handlers = [\"meter\"]"),
    ("handlers = 5", 5, "expected a list of strings"),
];

/// The same with lines before the stream.
const BEFORE: &[(&str, u32, &str)] = &[
    ("[[class]]\nname = \"a\"\n[[class]]\nname = \"a\"", 4, "duplicate class name a"),
    ("[[class]]\nname = \"\"", 2, "expected 1 to 64 characters"),
    ("[[class]]\nname = \"a\\u0007\"", 2, "without control characters"),
    ("[[class]]\nname = \"a\"\nshare = 0", 3, "share is 0: expected a whole number from 1 to 4294967295"),
    ("[[class]]\nname = \"a\"\nshare = [2]", 3, "share is of type array: expected a whole number"),
    ("[[class]]\nname = \"a\"\npriority = 256", 3, "priority is 256: expected a whole number from 0 to 255"),
    ("[[class]]\nname = \"a\"\npriority = \"10\"", 3, "priority is \"10\": expected a whole number"),
    ("[[class]]\nname = \"a\"\nburst = \"1MB\"", 3, "burst needs rate"),
    ("[sharing]\npolicy = \"fair\"", 2, "unknown variant `fair`, expected one of `best-effort`"),
    ("[sharing]\nround = \"1MB\"", 2, "need policy = \"fair-share\""),
    ("[sharing]\npolicy = \"fair-share\"\nround = \"0B\"", 3, "invalid round 0: expected a volume"),
    ("[sharing]\npolicy = \"fair-share\"\nround = \"much\"", 3, "invalid round much: expected a volume"),
    ("[sharing]\npolicy = \"fair-share\"\nround = \"2ms\"", 3, "add resource = \"cpu\""),
    ("[sharing]\nresource = \"cpu\"", 2, "need policy = \"fair-share\""),
    (
        "[sharing]\npolicy = \"fair-share\"\nresource = \"disk\"",
        3,
        "unknown variant `disk`, expected `volume` or `cpu`",
    ),
    (
        "[sharing]\npolicy = \"fair-share\"\ncarry = 101",
        3,
        "carry is 101: expected a whole number from 0 to 100",
    ),
    (
        "[sharing]\npolicy = \"fair-share\"\ncarry = 500",
        3,
        "carry is 500: expected a whole number from 0 to 100",
    ),
    ("[sharing]\npolicy = \"fair-share\"\ncarry = -1.5", 3, "carry is -1.5: expected a whole number"),
    ("[shareing]", 1, "unknown key `shareing`: did you mean `sharing`?"),
    ("port = 5", 1, "unknown key `port`: expected sharing, class, stream"),
    ("[[class]]\nname = \"a\"\nprio = 1", 3, "unknown key `prio`: did you mean `priority`?"),
    ("[sharing]\npolcy = \"fair-share\"", 2, "unknown key `polcy`: did you mean `policy`?"),
    (
        "[[class]]\nshare = 2",
        1,
        "missing key name; a [[stream]] needs name, in and out, a [[class]] needs name",
    ),
    ("[class]\nname = \"a\"", 1, "expected a list: write [[stream]] and [[class]] with two brackets"),
];

/// Rounds of sharing the processor, and the problem.
const CPU_ROUNDS: &[(&str, &str)] = &[
    ("1MiB", "invalid round 1MiB: expected a time such as 10ms; to share volume"),
    ("0s", "invalid round 0s: expected a time from 1us to 10s, such as 10ms"),
    ("1min", "invalid round 1min"),
    ("soon", "invalid round soon"),
];

/// Promise: An invalid configuration file is refused with the line, before anything is opened.
/// Promise: Standard streams, output files and listening addresses may occur only once; wrong parameters are
/// refused.
#[test]
fn each_wrong_thing_is_named_with_its_line() {
    for (lines, line, problem) in BEHIND {
        ensure_refused(&format!("{STREAM}{lines}\n"), *line, problem);
    }
    for (lines, line, problem) in BEFORE {
        ensure_refused(&format!("{lines}\n{STREAM}"), *line, problem);
    }
    for (round, problem) in CPU_ROUNDS {
        let sharing = format!("[sharing]\npolicy = \"fair-share\"\nresource = \"cpu\"\nround = \"{round}\"");
        ensure_refused(&format!("{sharing}\n{STREAM}"), 4, problem);
    }
}

fn ensure_refused(text: &str, line: u32, problem: &str) {
    let error = from_text(text).unwrap_err().to_string();
    let place = format!("relay.toml, line {line}: ");
    assert!(
        error.contains(&place) && error.contains(problem) && !error.contains('\n'),
        "{error} for\n{text}"
    );
}

/// Promise: An invalid configuration file is refused with the line, before anything is opened.
#[test]
fn what_grows_has_a_limit() {
    let classes: String = (0..65).map(|number| format!("[[class]]\nname = \"{number}\"\n")).collect();
    assert!(
        from_text(&classes)
            .unwrap_err()
            .to_string()
            .contains("line 129: too many classes: at most 64 are allowed")
    );
    let error = Configuration::from_file(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.contains("/dev/zero") && error.contains("larger than 16 MiB"), "{error}");
    let error = Configuration::from_file(Path::new("/does/not/exist")).unwrap_err().to_string();
    assert!(error.contains("cannot read the configuration file /does/not/exist: No such file"), "{error}");
}

#[test]
fn a_class_that_is_not_there_is_said_with_those_that_are() {
    let configuration = from_text("[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"").unwrap();
    assert_eq!(configuration.class("b"), Ok(1));
    assert_eq!(configuration.class("c"), Err("unknown class c; expected one of a, b".to_owned()));
}

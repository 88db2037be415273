//! First inputs that are made, not kept: transport streams, and images packed from them. They are the same
//! each time.

use wirepath_media::image::{Identity, Layout, PAGE, Plan, Recipe, Writer, copy_payload};
use wirepath_media::pack::{Error, Packer};
use wirepath_media::ts::synthetic::{Jump, Sample, SampleProgramme};
use wirepath_media::ts::{Framing, NULL_PID};

/// An input.
pub struct Seed {
    /// The target that it is for.
    pub target: &'static str,
    /// Its name, by what is special.
    pub name: &'static str,
    /// The input itself.
    pub bytes: Vec<u8>,
}

/// All of them.
pub fn all() -> Result<Vec<Seed>, Error> {
    let text = b"\x06\x40This is not a transport stream.".to_vec();
    let mut seeds = vec![
        Seed { target: "ts", name: "text", bytes: text },
        Seed { target: "image", name: "unfinished", bytes: vec![1; PAGE as usize + 1] },
    ];
    for (name, sample) in samples() {
        let bytes = sample.stream().bytes;
        seeds.push(Seed { target: "ts", name, bytes: [&[6, 200], &bytes[..]].concat() });
        if sample.programmes.iter().any(|programme| programme.ticks) {
            let image = image(&bytes, 1 + bytes.len() as u16 % 3, Layout::Image)?;
            seeds.push(Seed { target: "image", name, bytes: [&[1], &image[..]].concat() });
        }
    }
    let index = image(&Sample { packets: 60, ..Sample::default() }.stream().bytes, 3, Layout::Index)?;
    seeds.push(Seed { target: "image", name: "index", bytes: [&[1], &index[..]].concat() });
    Ok(seeds)
}

/// Short streams, one for each thing that can be special about one.
fn samples() -> Vec<(&'static str, Sample)> {
    let small = Sample { packets: 60, tables_every: 20, pcr_every: 10, ..Sample::default() };
    let own = SampleProgramme { pcr_pid: 0x1f0, ..SampleProgramme::numbered(1) };
    let clockless = SampleProgramme { pcr_pid: NULL_PID, ticks: false, ..SampleProgramme::numbered(1) };
    let several = (1..4).map(SampleProgramme::numbered).collect();
    let with_video = |stream_type| {
        let mut programme = SampleProgramme::numbered(1);
        programme.streams[0].1 = stream_type;
        Sample { programmes: vec![programme], marks_random_access: false, ..small.clone() }
    };
    let jumping =
        |ticks, flagged| Sample { jumps: vec![Jump { packet: 30, ticks, flagged }], ..small.clone() };
    vec![
        ("bare", small.clone()),
        ("timestamped", Sample { framing: Framing::Timestamped, ..small.clone() }),
        ("protected", Sample { framing: Framing::Protected, ..small.clone() }),
        ("clock-on-its-own", Sample { programmes: vec![own], ..small.clone() }),
        ("no-clock", Sample { programmes: vec![clockless.clone()], ..small.clone() }),
        (
            "second-programme-ticks",
            Sample { programmes: vec![clockless, SampleProgramme::numbered(2)], ..small.clone() },
        ),
        ("several-programmes", Sample { programmes: several, ..small.clone() }),
        ("no-tables", Sample { tables_every: 0, ..small.clone() }),
        ("wrap", Sample { first_pcr: (300 << 33) - 300_000, ..small.clone() }),
        ("jump-forward", jumping(1 << 40, false)),
        ("jump-back", jumping((300 << 33) - (1 << 30), false)),
        ("jump-announced", jumping(5_000_000, true)),
        ("one-reference", Sample { pcr_every: 1000, ..small.clone() }),
        ("mpeg2-video", with_video(0x02)),
        ("h264-video", with_video(0x1b)),
        ("h265-video", with_video(0x24)),
        ("sound-only", with_video(0x0f)),
    ]
}

fn image(asset: &[u8], ts_per_packet: u16, layout: Layout) -> Result<Vec<u8>, Error> {
    let identity = Identity { size: asset.len() as u64, mtime_ns: 1, inode: 2, device: 3 };
    let recipe = Recipe { ts_per_packet, burst_us: 5000 };
    let plan = Plan { identity, recipe, ssrc: 4, sequence: 5, timestamp: 6 };
    let mut packer = Packer::new(plan).expect("a plan that can be followed");
    packer.push(asset)?;
    let end = packer.finish()?;
    let (mut image, mut writer) = (vec![0; PAGE as usize], Writer::new(plan, layout));
    while let Some(segment) = packer.pop() {
        let written = writer.add(&segment, copy_payload(asset)).expect("copying does not fail");
        image.resize(written.entry.offset as usize, 0);
        image.extend(written.bytes);
    }
    let summary = writer.finish(end);
    image.resize(summary.header.table.offset as usize, 0);
    image.extend(summary.table_bytes);
    image[..PAGE as usize].copy_from_slice(&summary.header.encode());
    Ok(image)
}

//! Prints how fast one core packs a transport stream: `cargo run --release -p wirepath-media --example
//! packing_speed`. With INDEX in the environment, it makes an index. It packs the file given as argument,
//! from memory, or else a synthetic stream of 4 Mb/s.

use std::time::Instant;

use wirepath_media::image::{Identity, Layout, Plan, Recipe, StreamPlan, Writer, copy_payload};
use wirepath_media::pack::Packer;
use wirepath_media::ts::synthetic::{Sample, SampleProgramme};

const ROUNDS: usize = 8;
const INPUT_LENGTH: usize = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let asset = match std::env::args().nth(1) {
        Some(path) => std::fs::read(path)?,
        None => sample(),
    };
    for round in 1..=ROUNDS {
        let begin = Instant::now();
        let image_bytes = pack(&asset)?;
        let speed = asset.len() as f64 / begin.elapsed().as_secs_f64() / 1e6;
        println!("round {round}: {speed:.0} MB/s ({} bytes to {image_bytes})", asset.len());
    }
    Ok(())
}

fn sample() -> Vec<u8> {
    let programmes = vec![SampleProgramme::numbered(1)];
    Sample { packets: 500_000, programmes, ..Sample::default() }.stream().bytes
}

fn pack(asset: &[u8]) -> Result<usize, Box<dyn std::error::Error>> {
    let identity = Identity { size: asset.len() as u64, mtime_ns: 0, inode: 0, device: 0 };
    let recipe = Recipe::transport_stream(7, 20_000);
    let plan = Plan { identity, recipe, streams: StreamPlan::transport_stream(1, 2, 3).into() };
    let layout = match std::env::var_os("INDEX") {
        Some(_) => Layout::Index,
        None => Layout::Image,
    };
    let (mut packer, mut writer) = (Packer::new(plan)?, Writer::new(plan, layout));
    let mut image_bytes = 0;
    let mut write = |packer: &mut Packer| -> Result<(), Box<dyn std::error::Error>> {
        while let Some(segment) = packer.pop() {
            image_bytes += writer.add(&segment, copy_payload(asset))?.bytes.len();
        }
        Ok(())
    };
    for input in asset.chunks(INPUT_LENGTH) {
        packer.push(input)?;
        write(&mut packer)?;
    }
    let end = packer.finish()?;
    write(&mut packer)?;
    Ok(image_bytes + writer.finish(end).table_bytes.len())
}

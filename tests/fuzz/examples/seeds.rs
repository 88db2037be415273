//! Writes the seeds that are made into FOLDER/TARGET/, for libFuzzer: `cargo run -p wirepath-fuzz --example seeds
//! FOLDER`.

use std::path::PathBuf;

use wirepath_fuzz::seeds;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder =
        PathBuf::from(std::env::args_os().nth(1).ok_or("which FOLDER shall the seeds be written to?")?);
    for seed in seeds::all()? {
        let folder = folder.join(seed.target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(seed.name), seed.bytes)?;
    }
    Ok(())
}

//! Processor time of `wirepath-records` for each request, beside a server of the user level that does the same with
//! copies: figure 12 of the KStreams paper. `make bench-records`; method in docs/records.md.

mod user;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Result, ensure};
use arrow_array::{ArrayRef, Float64Array, Int32Array, ListArray, RecordBatch};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field};
use clap::{Parser, Subcommand};
use wirepath_bench_images::{Case, Rounds, Server, report, run};

/// Measures processor time for each request of the record server, beside a server of the user level.
#[derive(Parser)]
#[command(name = "wirepath-bench-records")]
struct Options {
    #[command(subcommand)]
    command: Option<Serve>,
    /// Interleaved rounds
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Mebibytes of files that each server is asked about in a round, about
    #[arg(long, default_value_t = 100)]
    volume: u64,
    /// Connections
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Words that names of cases hold
    #[arg(long)]
    only: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Serve {
    /// Be the server of the user level
    #[command(hide = true)]
    Serve { folder: PathBuf },
}

/// The paper's files have 512 KB in records of 2 to 16 KB: a fourth numbers, three fourths arrays. Its client asks for
/// half of the numbers and two thirds of the arrays.
const CASES: &[Case] = &[
    Case {
        name: "project, 512 KB, records of 16 KB",
        path: "/k16.arrow?select=a,b,u,v&form=stream",
        bytes: 524_288,
    },
    Case {
        name: "project, 512 KB, records of 2 KB",
        path: "/k2.arrow?select=a,b,u,v&form=stream",
        bytes: 524_288,
    },
    Case { name: "project, 64 MB", path: "/large.arrow?select=a,b,u,v&form=stream", bytes: 67_108_864 },
    Case { name: "one column, 64 MB", path: "/large.arrow?select=a&form=stream", bytes: 67_108_864 },
    Case { name: "derive, 512 KB", path: "/k16.arrow?select=u,v,total=a%2Bb*2&form=stream", bytes: 524_288 },
    Case {
        name: "derive, 64 MB",
        path: "/large.arrow?select=u,v,total=a%2Bb*2&form=stream",
        bytes: 67_108_864,
    },
    Case {
        name: "filter, 64 MB",
        path: "/large.arrow?select=a,b,u&where=a%20%3C%20100&form=stream",
        bytes: 67_108_864,
    },
];

fn main() -> Result<()> {
    let options = Options::parse();
    match &options.command {
        Some(Serve::Serve { folder }) => user::serve(folder),
        None => measure(&options),
    }
}

fn measure(options: &Options) -> Result<()> {
    let folder = tempfile::tempdir()?;
    store(&folder.path().join("k16.arrow"), 16 << 10, 512 << 10)?;
    store(&folder.path().join("k2.arrow"), 2 << 10, 512 << 10)?;
    store(&folder.path().join("large.arrow"), 2 << 10, 64 << 20)?;
    let ours = std::env::current_exe()?.with_file_name("wirepath-records");
    ensure!(ours.exists(), "{} is not built; run: make bench-records", ours.display());
    let mut command = Command::new(ours);
    let ours = Server::start("wirepath-records", command.args(["--http", "127.0.0.1:0"]).arg(folder.path()))?;
    let mut command = Command::new(std::env::current_exe()?);
    let servers = [ours, Server::start("user level", command.arg("serve").arg(folder.path()))?];
    let Options { rounds, volume, connections, .. } = *options;
    let rounds = Rounds { rounds, volume: volume << 20, connections };
    let wanted = |case: &&Case| options.only.as_ref().is_none_or(|words| case.name.contains(words));
    let mut results = Vec::new();
    for case in CASES.iter().filter(wanted) {
        results.push((case, run(case, &servers, &rounds, is_same)?));
    }
    report(&results, &servers, options.json);
    Ok(())
}

/// Compares the records of two streams.
fn is_same(one: &[u8], other: &[u8]) -> Result<bool> {
    let records = |bytes: &[u8]| -> Result<Vec<RecordBatch>> {
        let reader = arrow_ipc::reader::StreamReader::try_new(std::io::Cursor::new(bytes.to_vec()), None)?;
        Ok(reader.collect::<Result<_, _>>()?)
    };
    let columns = |batches: &[RecordBatch]| -> Vec<Vec<ArrayRef>> {
        batches.iter().filter(|batch| batch.num_rows() > 0).map(|batch| batch.columns().to_vec()).collect()
    };
    Ok(columns(&records(one)?) == columns(&records(other)?))
}

/// Stores records of so many bytes each: a fourth in four numbers and a pad, three fourths in three arrays. A record
/// batch has half a mebibyte.
fn store(path: &Path, record: usize, bytes: usize) -> Result<()> {
    let (rows, in_batch) = (bytes / record, (512 << 10) / record);
    // In numbers of eight bytes; the fixed-size list of numbers is the paper's "contiguous" part.
    let array = record / 4 / 8;
    let schema = {
        let list = |name| Field::new(name, DataType::new_list(DataType::Float64, false), false);
        let number = |name| Field::new(name, DataType::Int32, false);
        arrow_schema::Schema::new(vec![
            number("a"),
            list("pad"),
            number("b"),
            list("u"),
            list("v"),
            list("w"),
        ])
    };
    let schema = Arc::new(schema);
    let mut writer = FileWriter::try_new(std::fs::File::create(path)?, &schema)?;
    let mut first = 0;
    while first < rows {
        let count = in_batch.min(rows - first);
        let number = |factor: usize| {
            Arc::new(Int32Array::from_iter_values(
                (first..first + count).map(|row| (row * factor % 1000) as i32),
            ))
        };
        let list = |length: usize, start: f64| -> ArrayRef {
            let values = Float64Array::from_iter_values((0..length * count).map(|n| start + n as f64));
            let offsets: Vec<i32> = (0..=count).map(|row| (row * length) as i32).collect();
            let field = Arc::new(Field::new_list_field(DataType::Float64, false));
            Arc::new(ListArray::new(
                field,
                OffsetBuffer::new(ScalarBuffer::from(offsets)),
                Arc::new(values),
                None,
            ))
        };
        let columns: Vec<ArrayRef> = vec![
            number(7),
            list(array.saturating_sub(2), 0.5),
            number(13),
            list(array, 1.0),
            list(array, 2.0),
            list(array, 3.0),
        ];
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns)?)?;
        first += count;
    }
    writer.finish()?;
    // It can be read.
    ensure!(FileReader::try_new(std::fs::File::open(path)?, None)?.num_batches() > 0);
    Ok(())
}

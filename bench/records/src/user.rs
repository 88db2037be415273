//! Server of the user level: a thread for each connection, which reads record batches with the library of Arrow,
//! projects or computes with the same kernels, and writes them with that library.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use arrow_arith::numeric;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, Scalar};
use arrow_cast::cast;
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;

/// Bytes that are written in a call, about.
const PIECE: usize = 64 * 1024;

/// Serves a folder until it is killed.
pub(crate) fn serve(folder: &Path) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("ready http=http://{}/", listener.local_addr()?);
    std::thread::scope(|scope| {
        for connection in listener.incoming() {
            let connection = connection?;
            connection.set_nodelay(true)?;
            scope.spawn(move || {
                if let Err(error) = exchanges(folder, connection) {
                    eprintln!("user level: {error:#}");
                }
            });
        }
        Ok(())
    })
}

fn exchanges(folder: &Path, mut connection: TcpStream) -> Result<()> {
    let mut head = [0; 4096];
    let mut made = Vec::new();
    loop {
        let mut filled = 0;
        while !head[..filled].ends_with(b"\r\n\r\n") {
            match connection.read(&mut head[filled..])? {
                0 => return Ok(()),
                read => filled += read,
            }
        }
        let target = head[..filled].split(|&byte| byte == b' ').nth(1).context("a target")?;
        let (path, query) = std::str::from_utf8(target)?.split_once('?').context("a query")?;
        answer(folder, path, query, &mut connection, &mut made)?;
    }
}

/// Answers one of the requests that are measured. Each answer has a length, so it is made before it is sent.
fn answer(
    folder: &Path,
    path: &str,
    query: &str,
    connection: &mut TcpStream,
    made: &mut Vec<u8>,
) -> Result<()> {
    let file = File::open(folder.join(&path[1..]))?;
    made.clear();
    let names: Vec<&str> = query
        .strip_prefix("select=")
        .context("a selection")?
        .split('&')
        .next()
        .unwrap_or_default()
        .split(',')
        .collect();
    if query.contains("where=") {
        let wanted = columns(&file, &names)?;
        write(&file, wanted, made, |batch| {
            let a = batch.column(0).as_primitive::<Int32Type>();
            let mask = BooleanArray::from_unary(a, |value| value < 100);
            Ok(filter_record_batch(&batch, &mask)?)
        })?;
    } else if query.contains("total=") {
        let wanted = columns(&file, &["a", "b", "u", "v"])?;
        write(&file, wanted, made, total)?;
    } else {
        let wanted = columns(&file, &names)?;
        write(&file, wanted, made, Ok)?;
    }
    let mut output = BufWriter::with_capacity(PIECE, connection);
    write!(output, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", made.len())?;
    output.write_all(made)?;
    Ok(output.flush()?)
}

/// Numbers of columns.
fn columns(file: &File, names: &[&str]) -> Result<Vec<usize>> {
    let reader = FileReader::try_new(file.try_clone()?, None)?;
    let schema = reader.schema();
    names.iter().map(|name| Ok(schema.index_of(name)?)).collect()
}

/// Reads these columns batch by batch, and writes what is made of them.
fn write(
    file: &File,
    columns: Vec<usize>,
    made: &mut Vec<u8>,
    make: impl Fn(RecordBatch) -> Result<RecordBatch>,
) -> Result<()> {
    let reader = FileReader::try_new(file.try_clone()?, Some(columns))?;
    let mut writer: Option<StreamWriter<&mut Vec<u8>>> = None;
    let mut target = Some(made);
    for batch in reader {
        let batch = make(batch?)?;
        if writer.is_none() {
            let Some(target) = target.take() else { bail!("one writer") };
            writer = Some(StreamWriter::try_new(target, &batch.schema())?);
        }
        writer.as_mut().context("a writer")?.write(&batch)?;
    }
    Ok(writer.context("a record batch")?.finish()?)
}

/// `u`, `v` and `a + b * 2`, of `a`, `b`, `u` and `v` in the order of the file.
fn total(batch: RecordBatch) -> Result<RecordBatch> {
    let column =
        |name: &str| -> Result<ArrayRef> { Ok(Arc::clone(batch.column_by_name(name).context("a column")?)) };
    let (a, b) = (cast(&column("a")?, &DataType::Int64)?, cast(&column("b")?, &DataType::Int64)?);
    let two = Scalar::new(Int64Array::from_value(2, 1));
    let total = numeric::add(&a, &numeric::mul(&b, &two)?)?;
    let fields = ["u", "v"].map(|name| batch.schema().field_with_name(name).cloned());
    let [u, v] = fields;
    let schema: SchemaRef = Arc::new(Schema::new(vec![u?, v?, Field::new("total", DataType::Int64, true)]));
    Ok(RecordBatch::try_new(schema, vec![column("u")?, column("v")?, total])?)
}

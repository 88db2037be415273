//! Answers made from files in memory, whole and damaged.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::types::Int8Type;
use arrow_array::{
    Array, BooleanArray, DictionaryArray, Float64Array, Int32Array, ListArray, RecordBatch, StringArray,
    StringViewArray, StructArray,
};
use arrow_ipc::CompressionType;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::Field;

use super::*;
use crate::batch::Batch;
use crate::compression::tests::compressed;
use crate::limits::Budget;
use crate::query::Question;

/// Two record batches of several types.
fn records() -> Vec<RecordBatch> {
    let numbers = Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4), Some(5)]));
    let words: DictionaryArray<Int8Type> = ["x", "y", "x", "z", "y"].into_iter().collect();
    let texts = Arc::new(StringArray::from(vec![Some("one"), Some(""), None, Some("four"), Some("five")]));
    let views = StringViewArray::from(vec!["short", "a text that is not so short", "", "x", "y"]);
    let list = ListArray::from_iter_primitive::<arrow_array::types::Int64Type, _, _>(vec![
        Some(vec![Some(1), Some(2)]),
        None,
        Some(vec![]),
        Some(vec![None]),
        Some(vec![Some(5)]),
    ]);
    let inner = Arc::new(Field::new("inner", texts.data_type().clone(), true));
    let point = StructArray::from(vec![(inner, Arc::clone(&texts) as ArrayRef)]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", numbers),
        ("word", Arc::new(words)),
        ("text", texts),
        ("view", Arc::new(views)),
        ("list", Arc::new(list)),
        ("point", Arc::new(point)),
        ("half", Arc::new(Float64Array::from(vec![0.5, 1.5, 2.5, 3.5, 4.5]))),
        ("flag", Arc::new(BooleanArray::from(vec![true, false, true, true, false]))),
    ];
    let all = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    );
    let all = all.expect("columns of one length");
    vec![all.slice(0, 3), all.slice(3, 2)]
}

fn stored(form: Form) -> Vec<u8> {
    let (records, mut bytes) = (records(), Vec::new());
    let schema = records[0].schema();
    match form {
        Form::File => {
            let mut writer = FileWriter::try_new(&mut bytes, &schema).expect("a writer");
            records.iter().for_each(|batch| writer.write(batch).expect("it is written"));
            writer.finish().expect("it is written");
        }
        Form::Stream => {
            let mut writer = StreamWriter::try_new(&mut bytes, &schema).expect("a writer");
            records.iter().for_each(|batch| writer.write(batch).expect("it is written"));
            writer.finish().expect("it is written");
        }
    }
    bytes
}

fn read_from(file: &[u8]) -> impl Fn(&mut [u8], u64) -> io::Result<()> + '_ {
    |bytes, at| {
        let found = usize::try_from(at).ok().and_then(|at| file.get(at..at.checked_add(bytes.len())?));
        bytes.copy_from_slice(found.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Limits that no test reaches.
fn limits() -> Limits {
    Limits::new(Budget::new(1 << 30), Duration::from_secs(600))
}

/// The answer to a query.
fn ask(file: &[u8], query: &str) -> Result<Vec<u8>> {
    let (size, read) = (file.len() as u64, read_from(file));
    let stored = Stored::open(size, &read)?;
    let Question::Format(format) = Question::parse(query)? else { panic!("{query} asks for no format") };
    let answered = answer(&stored, &format, size, &limits(), &read)?;
    let (mut bytes, announced) = (Vec::new(), answered.bytes());
    answered.write_to(&mut bytes, &read)?;
    assert_eq!(bytes.len() as u64, announced, "{query}");
    Ok(bytes)
}

fn decoded(bytes: &[u8], form: Form) -> Vec<RecordBatch> {
    let cursor = io::Cursor::new(bytes);
    let records: std::result::Result<Vec<_>, _> = match form {
        Form::File => FileReader::try_new(cursor, None).expect("a file").collect(),
        Form::Stream => StreamReader::try_new(cursor, None).expect("a stream").collect(),
    };
    records.expect("records")
}

/// Promise: An answer has the columns of the file, in each form and any order, as another reader finds them.
#[test]
fn selected_columns_are_those_of_the_file() {
    for (of, form) in [(Form::File, Form::Stream), (Form::Stream, Form::File)] {
        let file = stored(of);
        for names in [
            vec!["n"],
            vec!["word", "n"],
            vec!["point", "list", "view", "text"],
            vec!["flag", "half", "word"],
        ] {
            let bytes =
                ask(&file, &format!("select={}&form={}", names.join(","), form.name())).expect("an answer");
            let expected = records().into_iter().map(|batch| {
                let columns: Vec<_> =
                    names.iter().map(|name| batch.schema().index_of(name).expect(name)).collect();
                batch.project(&columns).expect("its columns")
            });
            assert_eq!(decoded(&bytes, form), expected.collect::<Vec<_>>(), "{names:?}");
        }
    }
}

/// Promise: Computed fields appear beside columns that are not read; filters select the records that match.
#[test]
fn fields_are_computed_and_records_filtered() {
    let file = stored(Form::File);
    let bytes = ask(&file, "select=text,sum=n%2Bhalf*2,big=n>3&form=stream").expect("an answer");
    let found = decoded(&bytes, Form::Stream);
    let sums = found[0].column(1).as_primitive::<arrow_array::types::Float64Type>();
    assert_eq!(sums.iter().collect::<Vec<_>>(), [Some(2.0), None, Some(8.0)]);
    assert_eq!(found[1].column(2).as_boolean(), &BooleanArray::from(vec![true, true]));
    let bytes = ask(&file, "select=word,n&where=word='x'%20or%20n=5&form=stream").expect("an answer");
    let rows: Vec<_> = decoded(&bytes, Form::Stream).iter().map(RecordBatch::num_rows).collect();
    assert_eq!(rows, [2, 1]);
}

/// Promise: No byte of a stored file, set to any of several values, makes reading it panic or return too
/// much.
#[test]
fn damaged_files_are_refused_or_answered() {
    let queries =
        ["select=*", "select=list,word,view&form=file", "select=m=n*2,word", "where=n>2%20and%20text<>'a'"];
    for form in [Form::File, Form::Stream] {
        let whole = stored(form);
        for at in 0..whole.len() {
            let mut file = whole.clone();
            // Each place has another change, and another question.
            file[at] = [0, 0xff, 0x7f, file[at] ^ 1, file[at].wrapping_add(8)][at % 5];
            match ask(&file, queries[at % queries.len()]) {
                Ok(bytes) => assert!(bytes.len() < 4 * whole.len() + 4096, "{} bytes", bytes.len()),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        for length in 0..whole.len() {
            let _ = ask(&whole[..length], queries[length % queries.len()]).map_err(|error| error.to_string());
        }
    }
}

/// A stream with compressed bodies.
fn compress(stream: &[u8], codec: CompressionType) -> Vec<u8> {
    let reader = Reader { size: stream.len() as u64, read: read_from(stream) };
    let stored = Stored::open(reader.size, &reader.read).expect("a stream");
    let messages: Vec<Message> = stored.messages(&reader).collect::<Result<_>>().expect("messages");
    let mut bytes = stream[..messages[0].at as usize].to_vec();
    for Message { batch, body: place, dictionary, .. } in messages {
        let (mut packed, mut body) =
            (Batch { compression: Some(codec), buffers: vec![], ..batch.clone() }, vec![]);
        for buffer in &batch.buffers {
            let start = place.start as usize + buffer.offset() as usize;
            let plain = &stream[start..start + buffer.length() as usize];
            let made = if plain.is_empty() { Vec::new() } else { compressed(codec, plain) };
            packed.buffers.push(arrow_ipc::Buffer::new(body.len() as i64, made.len() as i64));
            body.extend(made);
            body.resize(body.len().next_multiple_of(8), 0);
        }
        bytes.extend(crate::encode::batch(&packed, dictionary, body.len() as u64));
        bytes.extend(body);
    }
    bytes.extend(crate::encode::END);
    bytes
}

/// Promise: Compressed records are filtered and computed with; no damaged byte makes that panic or answer too much.
#[test]
fn compressed_records_are_computed_with() {
    let plain = stored(Form::Stream);
    let queries = ["where=n>2", "select=word,list,view,m=n*2&where=text<>'a'", "select=m=n*2,big=half>3"];
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let packed = compress(&plain, codec);
        for query in queries {
            let found = ask(&packed, query).expect(query);
            let expected = ask(&plain, query).expect(query);
            assert_eq!(decoded(&found, Form::Stream), decoded(&expected, Form::Stream), "{query}");
        }
        for at in 0..packed.len() {
            let mut file = packed.clone();
            file[at] = [0, 0xff, 0x7f, file[at] ^ 1, file[at].wrapping_add(8)][at % 5];
            match ask(&file, queries[at % queries.len()]) {
                Ok(bytes) => assert!(bytes.len() < 4 * plain.len() + 4096, "{} bytes", bytes.len()),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}

/// A file with a column of so many children, of one record.
fn wide(children: usize) -> Vec<u8> {
    let child = |number| Arc::new(Field::new(format!("c{number}"), arrow_schema::DataType::Boolean, true));
    let values = || Arc::new(BooleanArray::from(vec![true])) as ArrayRef;
    let wide = StructArray::from((0..children).map(|number| (child(number), values())).collect::<Vec<_>>());
    let batch = RecordBatch::try_from_iter([("wide", Arc::new(wide) as ArrayRef)]).expect("a column");
    let mut bytes = Vec::new();
    let mut writer = FileWriter::try_new(&mut bytes, &batch.schema()).expect("a writer");
    writer.write(&batch).and_then(|()| writer.finish()).expect("it is written");
    bytes
}

/// Promise: A short query cannot request an oversized answer through a wide column: its children count
/// against the limit.
#[test]
fn children_of_columns_count() {
    let file = wide(999);
    let of_times = |times: usize| format!("select={}", vec!["wide"; times].join(","));
    assert!(ask(&file, &of_times(65)).is_ok());
    let error = ask(&file, &of_times(66)).expect_err("66,000 columns").to_string();
    assert!(error.contains("more than 65536 columns"), "{error}");
    let (size, read) = (file.len() as u64, read_from(&file));
    let stored = Stored::open(size, &read).expect("a file");
    let is_made_at_once = |times| {
        let Ok(Question::Format(format)) = Question::parse(&of_times(times)) else { panic!("a format") };
        answer_at_once(&stored, &format, size, &limits(), &read).is_some()
    };
    assert!(is_made_at_once(4) && !is_made_at_once(5));
}

/// Promise: A query that computes more values accepts only shorter record batches, so memory is bounded.
#[test]
fn values_that_are_computed_are_bounded() {
    let file = stored(Form::File);
    let stored = Stored::open(file.len() as u64, read_from(&file)).expect("a file");
    let most_rows = |query: &str| {
        let Ok(Question::Format(format)) = Question::parse(query) else { panic!("a format") };
        Plan::new(&stored, &format).expect("a plan").limits.most_rows
    };
    assert_eq!(most_rows("select=a=n%2B1&where=n>2"), 1 << 24);
    let list = format!("where=n%20in%20({}n)", "1,".repeat(50));
    assert_eq!(most_rows(&list), 1 << 24, "one value is held for all of a list");
    let many: Vec<String> = (0..64).map(|number| format!("f{number}=n%2Bn*2")).collect();
    assert_eq!(most_rows(&format!("select={}", many.join(","))), (1 << 27) / (64 + 3 + 2));
}

/// Promise: A file whose record batches overlap is refused.
#[test]
fn record_batches_do_not_overlap() {
    let schema = records()[0].schema();
    let blocks = vec![arrow_ipc::Block::new(8, 8, 1000); 4096];
    let footer = crate::encode::footer(&schema, &[], &blocks);
    let file = [&b"ARROW1\0\0"[..], &[0; 1100], &footer].concat();
    let error = Stored::open(file.len() as u64, read_from(&file)).expect_err("they overlap").to_string();
    assert!(error.contains("overlap"), "{error}");
}

/// Promise: Strings that many records share are compared without a copy for each record.
#[test]
fn shared_texts_of_other_types_are_compared() {
    let file = stored(Form::File);
    for filter in ["word=view", "view=word", "view<>text", "word=text"] {
        let bytes = ask(&file, &format!("select=n&form=stream&where={filter}")).expect(filter);
        let rows: usize = decoded(&bytes, Form::Stream).iter().map(RecordBatch::num_rows).sum();
        let expected = match filter {
            "view<>text" => 4,
            "word=text" => 0,
            _ => 1,
        };
        assert_eq!(rows, expected, "{filter}");
    }
}

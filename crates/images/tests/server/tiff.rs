//! TIFF files of other software: strips by netpbm, tiles by tifffile.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Trial;
use serde_json::json;
use wirepath_images::{Plan, Question, find_overviews, open_overview, open_picture};
use wirepath_tests::{http, trials};

use crate::TestBed;
use crate::pictures::{FACTORS, netpbm, picture, store_pyramid, tifffile, write_tiff};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        strips_of_netpbm_are_answered_as_ppm,
        files_of_tifffile_are_answered_as_ppm,
        a_whole_tiff_is_its_file,
        a_truncated_tiff_is_refused,
        overviews_are_sources_where_permitted,
        damaged_overviews_are_left_out,
    ]
}

/// Queries of every kind for a picture of this size, whose answers must not depend on how it is stored.
fn queries(width: u32, height: u32) -> Vec<String> {
    let methods = ["1/1&method=integral", "1/3&method=integral", "1/1000&method=integral"];
    let ratios = ["1/1", "1/2", "4/7", "1/1000"];
    let others = ["middle", "linear"].into_iter();
    let others = others.flat_map(|method| ratios.map(|ratio| format!("{ratio}&method={method}")));
    let scales = methods.into_iter().map(str::to_owned).chain(others).map(|scale| format!("scale={scale}"));
    let crops = [
        (0, 0, width, height),
        (0, 3, width, height - 5),
        (1, 1, width - 2, height - 2),
        (15, 15, 34, 20),
        (16, 16, 16, 16),
        (width / 3, height / 3, width / 2, height / 2),
        (width - 1, height - 1, 1, 1),
        (17, 0, 1, height),
    ]
    .map(|(x, y, width, height)| format!("crop={x},{y},{width},{height}"));
    let inner = format!("crop=5,7,{},{}", width - 11, height - 9);
    let scaled = scales.flat_map(|scale| [scale.clone(), format!("{inner}&gray&{scale}")]);
    crops.into_iter().chain(["gray".to_owned(), format!("gray&{inner}")]).chain(scaled).collect()
}

/// Queries and their answers.
type Answers = Vec<(String, Vec<u8>)>;

/// The answers for a file to these queries.
fn answers(bed: &TestBed, name: &str, queries: Vec<String>) -> Result<Answers> {
    let answer = |query: String| {
        let body = bed.body(&format!("/{name}?{query}"))?;
        Ok((query, body))
    };
    queries.into_iter().map(answer).collect()
}

/// Fails unless a file is answered so.
fn ensure_same(bed: &TestBed, name: &str, expected: &Answers) -> Result<()> {
    for (query, expected) in expected {
        let made = bed.body(&format!("/{name}?{query}"))?;
        ensure!(made == *expected, "{name} {query}: {} bytes differ from {}", made.len(), expected.len());
    }
    Ok(())
}

/// Promise: A TIFF in strips by netpbm has the same parts, gray and smaller pictures as its PPM, byte for byte.
fn strips_of_netpbm_are_answered_as_ppm() -> Result<()> {
    let bed = TestBed::new()?;
    // Rows of the last are long enough for sendfile.
    let pictures = [("a.ppm", 333, 77, 3, "8"), ("g.pgm", 333, 77, 1, "77"), ("w.ppm", 9000, 40, 3, "3")];
    for (name, width, height, channels, rows) in pictures {
        let path = bed.store(name, &picture(width, height, channels, 255))?;
        bed.store("a.tif", &strips(&path, rows)?)?;
        ensure_same(&bed, "a.tif", &answers(&bed, name, queries(width, height))?)?;
    }
    Ok(())
}

/// A TIFF in strips of so many rows that netpbm makes of a picture.
fn strips(path: &Path, rows: &str) -> Result<Vec<u8>> {
    netpbm("pamtotiff", &["-none", "-truecolor", "-rowsperstrip", rows], path)
}

/// Promise: Tiles, BigTIFF and big-endian files by tifffile are answered as their PPM is, byte for byte.
fn files_of_tifffile_are_answered_as_ppm() -> Result<()> {
    let bed = TestBed::new()?;
    let (width, height) = (333, 77);
    bed.store("a.ppm", &picture(width, height, 3, 255))?;
    bed.store("g.pgm", &picture(width, height, 1, 255))?;
    let forms = [
        ("byteorder='<', bigtiff=True", b"II\x2b\0"),
        ("byteorder='<', bigtiff=False", b"II\x2a\0"),
        ("byteorder='>', bigtiff=True", b"MM\0\x2b"),
        ("byteorder='>', bigtiff=False", b"MM\0\x2a"),
    ];
    let blocks = ["tile=(16, 16)", "tile=(32, 112)", "tile=(128, 512)", "rowsperstrip=5"];
    let mut files = Vec::new();
    for (number, ((form, mark), blocks)) in
        forms.iter().flat_map(|form| blocks.map(|blocks| (form, blocks))).enumerate()
    {
        for (from, colours) in [("a.ppm", "rgb"), ("g.pgm", "minisblack")] {
            let options = format!("{form}, {blocks}, photometric={colours:?}");
            files.push((from, format!("{number}.{from}.tif"), options, mark));
        }
    }
    let script: String =
        files.iter().map(|(from, name, options, _)| write_tiff(from, name, options)).collect();
    tifffile(&bed, &script)?;
    let coloured = answers(&bed, "a.ppm", queries(width, height))?;
    let gray = answers(&bed, "g.pgm", queries(width, height))?;
    for (from, name, options, mark) in files {
        let stored = std::fs::read(bed.folder.path().join(&name))?;
        ensure!(stored.starts_with(*mark), "{options}: tifffile made something else");
        let expected = if from == "a.ppm" { &coloured } else { &gray };
        ensure_same(&bed, &name, expected).context(options)?;
    }
    Ok(())
}

/// Promise: A whole TIFF, or a range of it, is answered as stored; `info` tells its size.
fn a_whole_tiff_is_its_file() -> Result<()> {
    let bed = TestBed::new()?;
    let stored = strips(&bed.store("a.ppm", &picture(333, 77, 3, 255))?, "8")?;
    bed.store("a.tif", &stored)?;
    let answer = bed.get("/a.tif")?;
    ensure!(
        answer.body == stored && answer.header("content-type") == Some("image/tiff"),
        "{}",
        answer.status
    );
    let answer = http::request(bed.address, "GET", "/a.tif", &[("Range", "bytes=5-999")])?;
    ensure!(answer.status == 206 && answer.body == stored[5..1000], "{}", answer.status);
    let information: serde_json::Value = serde_json::from_slice(&bed.body("/a.tif?info")?)?;
    ensure!(information["width"] == 333 && information["height"] == 77, "{information}");
    ensure!(information["channels"] == 3 && information["content_type"] == "image/tiff", "{information}");
    Ok(())
}

/// Promise: A truncated TIFF is refused with the bytes that it has and needs, whatever is requested of it.
fn a_truncated_tiff_is_refused() -> Result<()> {
    let bed = TestBed::new()?;
    // netpbm writes the directory behind the pixels.
    let stored = strips(&bed.store("a.ppm", &picture(333, 77, 3, 255))?, "8")?;
    for length in [5, stored.len() / 2, stored.len() - 100] {
        ensure_refused(&bed, &stored[..length])?;
    }
    // tifffile writes it in front of them.
    tifffile(&bed, &write_tiff("a.ppm", "tiles.tif", "photometric='rgb', tile=(32, 32)"))?;
    let stored = std::fs::read(bed.folder.path().join("tiles.tif"))?;
    for length in [stored.len() / 2, stored.len() - 1] {
        ensure_refused(&bed, &stored[..length])?;
    }
    ensure_same(&bed, "tiles.tif", &answers(&bed, "a.ppm", vec!["gray".to_owned()])?)
}

/// Fails unless every request for these bytes is refused as truncated.
fn ensure_refused(bed: &TestBed, bytes: &[u8]) -> Result<()> {
    bed.store("cut.tif", bytes)?;
    for query in ["", "?info", "?crop=0,0,1,1", "?gray", "?scale=1/2&method=linear", "?view"] {
        let answer = bed.get(&format!("/cut.tif{query}"))?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let words = format!("truncated picture: the file has {} bytes, its header says ", bytes.len());
        ensure!(answer.status == 415 && text.contains(&words), "{query}: {} {text}", answer.status);
        let needed = text.split("its header says ").nth(1).and_then(|rest| rest.split(';').next());
        let needed: usize = needed.unwrap_or_default().parse()?;
        ensure!(needed > bytes.len(), "{text}");
    }
    Ok(())
}

/// Promise: With `overviews`, a smaller picture is made from the smallest overview that has enough pixels.
fn overviews_are_sources_where_permitted() -> Result<()> {
    let bed = TestBed::new()?;
    let (width, height) = (1001, 703);
    store_pyramid(&bed, width, height, ">")?;
    let information: serde_json::Value = serde_json::from_slice(&bed.body("/a.tif?info")?)?;
    let overview = |factor: u32| json!({"factor": factor, "width": width.div_ceil(factor), "height": height.div_ceil(factor)});
    ensure!(information["overviews"] == json!(FACTORS.map(overview)), "{information}");
    for (side, method, factor) in [
        (2, "integral", 2),
        (6, "integral", 2),
        (7, "integral", 1),
        (12, "integral", 4),
        (16, "integral", 8),
        (7, "middle", 4),
        (8, "middle", 8),
        (3, "linear", 2),
        (1, "linear", 1),
    ] {
        for (x, y, width, height) in [(0, 0, 1000, 696), (64, 32, 336, 192), (960, 640, 40, 48)] {
            let smaller = |n: u32| format!("crop={},{},{},{}", x / n, y / n, width / n, height / n);
            let scale = format!("scale=1/{side}&method={method}");
            // The overviews are other pictures, so that the source can be told.
            let ratio = match method {
                "integral" => format!("1/{}", side / factor),
                _ => format!("{factor}/{side}"),
            };
            let expected = format!("/{factor}.ppm?{}&scale={ratio}&method={method}", smaller(factor));
            for gray in ["", "&gray"] {
                let query = format!("{}&{scale}{gray}", smaller(1));
                let made = bed.body(&format!("/a.tif?{query}&overviews"))?;
                let (from, without) =
                    (bed.body(&format!("{expected}{gray}"))?, bed.body(&format!("/1.ppm?{query}"))?);
                ensure!(made == from, "{query}: not as {expected}: {} bytes, {}", made.len(), from.len());
                ensure!(made.len() == without.len() && (made == without) == (factor == 1), "{query}");
                ensure!(bed.body(&format!("/a.tif?{query}"))? == without, "{query} without overviews");
                ensure!(bed.body(&format!("/1.ppm?{query}&overviews"))? == without, "a PPM has none");
            }
        }
    }
    let tag = |query: &str| -> Result<Option<String>> {
        Ok(bed.get(&format!("/a.tif?{query}"))?.header("etag").map(str::to_owned))
    };
    let (with, without) = (tag("scale=1/8&method=middle&overviews")?, tag("scale=1/8&method=middle")?);
    ensure!(with.is_some() && with != without, "{with:?}, {without:?}");
    ensure_few_bytes_are_read(&bed)
}

/// Fails unless the extents of an answer at 1/8 from the overview are a 64th of those without.
fn ensure_few_bytes_are_read(bed: &TestBed) -> Result<()> {
    let file = Arc::new(File::open(bed.folder.path().join("a.tif"))?);
    let size = file.metadata()?.len();
    let read = |bytes: &mut [u8], at: u64| file.read_exact_at(bytes, at);
    let picture = open_picture(size, read)?;
    let question = Question::parse("scale=1/8&method=integral&overviews")?;
    let Question::Transformed(steps) = question else { bail!("{question:?}") };
    let overviews = find_overviews(size, read, &picture)?.usable;
    let overview = steps.source(&overviews).context("no overview is the source")?;
    let source = open_overview(size, read, overview)?;
    let plan = Plan::of_overview(&picture, &steps, overview, &source)?;
    let (with, without) = (
        plan.extents(&source, Arc::clone(&file)).bytes(),
        Plan::new(&picture, &steps)?.extents(&picture, file).bytes(),
    );
    ensure!(with == 3 * 125 * 87 && without == 3 * 1001 * 703, "{with} bytes, {without} without");
    Ok(())
}

/// Promise: A damaged overview is left out and named in the picture's description; the others are served.
fn damaged_overviews_are_left_out() -> Result<()> {
    let bed = TestBed::new()?;
    store_pyramid(&bed, 333, 77, "<")?;
    // Of the overviews 1/2, 1/4 and 1/8: one whose last tile is not in the file, one whose directory has no width,
    // and a chain that goes back to the picture.
    tifffile(
        &bed,
        r#"
with tifffile.TiffFile(folder / "a.tif") as stored:
    full, half, quarter, eighth = (page.offset for page in stored.pages)
    offsets = stored.pages[1].tags["TileOffsets"]
    last_tile = offsets.valueoffset + 8 * (offsets.count - 1)
    width = stored.pages[2].tags["ImageWidth"].offset
whole = (folder / "a.tif").read_bytes()
end = eighth + 8 + 20 * int.from_bytes(whole[eighth : eighth + 8], "little")
assert whole[end : end + 8] == bytes(8)
for name, at, value in (("tile", last_tile, 1 << 40), ("width", width + 12, 0), ("endless", end, full)):
    stored = bytearray(whole)
    stored[at : at + 8] = value.to_bytes(8, "little")
    (folder / f"{name}.tif").write_bytes(stored)
"#,
    )?;
    let pixels = answers(&bed, "1.ppm", queries(333, 77))?;
    for (name, factors, error) in [
        ("tile", &[4, 8][..], "truncated picture"),
        ("width", &[2, 8], "tag 256 is 0"),
        ("endless", &FACTORS, "follows itself"),
    ] {
        let file = format!("{name}.tif");
        let information: serde_json::Value = serde_json::from_slice(&bed.body(&format!("/{file}?info"))?)?;
        let listed = information["overviews"].as_array().map(Vec::as_slice).unwrap_or_default();
        ensure!(listed.iter().map(|overview| &overview["factor"]).eq(factors), "{name}: {information}");
        let damaged = information["damaged_overviews"].as_array().map(Vec::as_slice).unwrap_or_default();
        let said = damaged.iter().filter_map(|damaged| damaged["error"].as_str()).collect::<String>();
        ensure!(damaged.len() == 1 && damaged[0]["at"].is_u64() && said.contains(error), "{information}");
        // The next larger one is the source, or the picture.
        for scale in FACTORS {
            let larger = factors.iter().filter(|factor| **factor <= scale).max().unwrap_or(&1);
            let crop = |factor: u32| format!("crop=0,0,{},{}", 328 / factor, 72 / factor);
            let expected = format!("/{larger}.ppm?{}&scale={larger}/{scale}&method=middle", crop(*larger));
            let made = bed.body(&format!("/{file}?{}&scale=1/{scale}&method=middle&overviews", crop(1)))?;
            ensure!(made == bed.body(&expected)?, "{name}: 1/{scale} is not from 1/{larger}");
        }
        ensure_same(&bed, &file, &pixels)?;
    }
    Ok(())
}

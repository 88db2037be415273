//! The viewer in a browser.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use tempfile::TempDir;
use wirepath_tests::browser::{Browser, Look};
use wirepath_tests::process::open_folder;
use wirepath_tests::{Deadline, trials};

use crate::TestBed;
use crate::pictures::{picture, samples, store_pyramid, tifffile, write_tiff};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        the_viewer_shows_the_pixels_of_the_picture,
        the_viewer_shows_a_tiled_tiff,
        the_viewer_shows_overviews,
        the_viewer_says_what_is_wrong,
    ]
}

/// Picture of these tests.
const WIDTH: u32 = 1000;
const HEIGHT: u32 = 700;

/// Promise: After panning and zooming, the viewer shows exactly the pixels that the server computes.
fn the_viewer_shows_the_pixels_of_the_picture() -> Result<()> {
    let bed = TestBed::new()?;
    bed.store("a <b>.ppm", &picture(WIDTH, HEIGHT, 3, 255))?;
    let (mut browser, _home) = open(&bed, "a%20%3Cb%3E.ppm")?;
    ensure!(browser.evaluate("document.title")? == "a <b>.ppm");
    look_around(&bed, &mut browser, "a%20%3Cb%3E.ppm")
}

/// Promise: The viewer shows exactly the pixels of a tiled TIFF of tifffile, which are those of its PPM.
fn the_viewer_shows_a_tiled_tiff() -> Result<()> {
    let bed = TestBed::new()?;
    bed.store("a.ppm", &picture(WIDTH, HEIGHT, 3, 255))?;
    tifffile(&bed, &write_tiff("a.ppm", "a.tif", "photometric='rgb', tile=(64, 112), bigtiff=True"))?;
    let (mut browser, _home) = open(&bed, "a.tif")?;
    // The pixels on the canvas are compared with answers for the PPM.
    look_around(&bed, &mut browser, "a.ppm")
}

/// Promise: The viewer shows the overviews of a TIFF where they have enough pixels.
fn the_viewer_shows_overviews() -> Result<()> {
    let bed = TestBed::new()?;
    store_pyramid(&bed, WIDTH, HEIGHT, "<")?;
    let (mut browser, _home) = open(&bed, "a.tif")?;
    let fitted = shown(&mut browser)?;
    ensure!(fitted == "crop=0,0,1000,700&scale=1/2&method=integral&overviews", "{fitted}");
    press(&mut browser, "1", 49)?;
    let full = compare(&bed, &mut browser, "1.ppm")?;
    ensure!(!full.contains("overviews"), "{full}");
    for (delta, factor) in [(480, 4), (240, 8)] {
        zoom(&mut browser, delta, factor)?;
        let query = compare(&bed, &mut browser, "a.tif")?;
        let numbers = query.strip_prefix("crop=").and_then(|rest| rest.split('&').next()).unwrap_or_default();
        let numbers: Vec<u32> = numbers.split(',').map(str::parse).collect::<Result<_, _>>()?;
        ensure!(numbers.iter().all(|number| number % factor == 0), "{query} is not of whole pixels");
        let numbers: Vec<String> = numbers.iter().map(|number| (number / factor).to_string()).collect();
        let overview = bed.body(&format!("/{factor}.ppm?crop={}", numbers.join(",")))?;
        ensure!(bed.body(&format!("/a.tif?{query}"))? == overview, "{query} is not a part of {factor}.ppm");
    }
    Ok(())
}

/// Turns the wheel until the picture is asked for at `1/side`.
fn zoom(browser: &mut Browser, delta: u32, side: u32) -> Result<()> {
    browser.call(
        "Input.dispatchMouseEvent",
        json!({"type": "mouseWheel", "x": 100, "y": 200, "deltaX": 0, "deltaY": delta}),
    )?;
    browser.wait_for(
        &format!("document.body.dataset.query.includes('scale=1/{side}')"),
        Deadline::seconds(20.0),
    )?;
    idle(browser)
}

/// Moves and zooms in the viewer, and compares the canvas with the server's answers for `name`.
fn look_around(bed: &TestBed, browser: &mut Browser, name: &str) -> Result<()> {
    let fitted = shown(browser)?;
    ensure!(fitted.starts_with("crop=0,0,1000,700"), "{fitted} is not all of it");
    // Pixel by pixel, moved, in colours and gray.
    press(browser, "1", 49)?;
    compare(bed, browser, name)?;
    for (key, code) in [("ArrowRight", 39), ("ArrowDown", 40), ("ArrowRight", 39)] {
        press(browser, key, code)?;
    }
    let moved = compare(bed, browser, name)?;
    browser.evaluate("document.getElementById('gray').click()")?;
    idle(browser)?;
    let gray = compare(bed, browser, name)?;
    ensure!(gray == moved.clone() + "&gray", "{gray} is not {moved} in gray");
    // The wheel zooms around its place.
    zoom(browser, 480, 4)?;
    compare(bed, browser, name)?;
    Ok(())
}

/// Promise: The viewer shows the reason if there is no picture.
fn the_viewer_says_what_is_wrong() -> Result<()> {
    let bed = TestBed::new()?;
    let path = bed.store("a.ppm", &picture(100, 100, 3, 255))?;
    let (mut browser, _home) = open(&bed, "a.ppm")?;
    std::fs::remove_file(path)?;
    // The browser notes an answer that is an error, too.
    browser.call("Log.disable", json!({}))?;
    browser.evaluate("document.getElementById('gray').click()")?;
    idle(&mut browser)?;
    let said = browser.evaluate("document.getElementById('state').textContent")?;
    ensure!(said == "404 Not Found: no such file", "{said}");
    Ok(())
}

/// Opens the viewer of a picture in a window of 500 by 400 pixels, and waits until it shows it.
fn open(bed: &TestBed, name: &str) -> Result<(Browser, TempDir)> {
    let home = open_folder()?;
    let mut browser = Browser::start(home.path())?;
    browser.look(Look { width: 500, height: 400, is_phone: false, is_dark: false })?;
    browser.open(&format!("http://{}/{name}?view", bed.address))?;
    idle(&mut browser)?;
    Ok((browser, home))
}

fn idle(browser: &mut Browser) -> Result<()> {
    browser.wait_for("document.body?.dataset.state === 'idle'", Deadline::seconds(20.0))
}

fn press(browser: &mut Browser, key: &str, code: u32) -> Result<()> {
    browser.press(key, code)?;
    idle(browser)
}

/// The query of the picture that is shown.
fn shown(browser: &mut Browser) -> Result<String> {
    Ok(browser.evaluate("document.body.dataset.query")?.as_str().unwrap_or_default().to_owned())
}

/// Compares the canvas with the answer for `name` to the query that is shown, pixel by pixel; returns the query.
fn compare(bed: &TestBed, browser: &mut Browser, name: &str) -> Result<String> {
    let query = shown(browser)?;
    let (header, samples) = samples(&bed.body(&format!("/{name}?{query}"))?)?;
    let size: Vec<usize> = header.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let channels = samples.len() / size[0] / size[1];
    let drawn = browser.evaluate(DRAWN)?;
    ensure!(drawn["size"] == json!(&size[..2]), "{query}: {:?} is drawn at {}", &size[..2], drawn["size"]);
    let drawn: Vec<u64> =
        drawn["pixels"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    ensure!(drawn.len() == 4 * size[0] * size[1], "{query}: {} samples are drawn", drawn.len());
    // What is not on the canvas has no colour.
    let visible = drawn.chunks(4).zip(samples.chunks(channels)).filter(|(pixel, _)| pixel[3] == 255);
    let mut compared = 0;
    for (pixel, expected) in visible {
        let colours = (0..3).map(|channel| u64::from(expected[channel.min(channels - 1)]));
        ensure!(
            colours.eq(pixel[..3].iter().copied()),
            "{query}: pixel {compared} is {pixel:?}: expected {expected:?}"
        );
        compared += 1;
    }
    ensure!(compared > 10_000, "{query}: only {compared} pixels are on the canvas");
    Ok(query)
}

/// Pixels of the canvas where the picture is drawn, and how large.
const DRAWN: &str = "(() => {
    const [left, top, width, height] = document.body.dataset.place.split(',').map(Number);
    const canvas = document.getElementById('canvas');
    // The browser complains of canvases that are read again and again.
    const copy = new OffscreenCanvas(canvas.width, canvas.height);
    const context = copy.getContext('2d', { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    return { size: [width, height], pixels: [...context.getImageData(left, top, width, height).data] };
})()";

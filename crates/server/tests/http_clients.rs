//! The HTTP listener with the clients people have: curl, wget, ffmpeg, a browser. One that is not installed
//! is skipped, and counted as that.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod http_support;

use http_support::{RunningListener, content};
use libtest_mimic::{Arguments, Failed, Trial};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use wirepath_net::http::HttpOptions;

fn main() -> ExitCode {
    let trials = vec![
        trial("curl_resumes_and_asks_for_ranges", &["curl"], curl_ranges),
        trial("curl_asks_under_conditions", &["curl"], curl_conditions),
        trial("wget_resumes", &["wget"], wget_resumes),
        trial("ffmpeg_reads_a_transport_stream", &["ffmpeg"], ffmpeg_transport_stream),
        trial("ffmpeg_seeks_in_an_mp4", &["ffmpeg"], ffmpeg_mp4),
        trial("a_browser_seeks_in_an_mp4", &["ffmpeg", "chromium"], browser),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: &str, programs: &[&str], test: fn()) -> Trial {
    let missing = programs.iter().any(|program| !installed(program));
    Trial::test(name, move || {
        test();
        Ok::<(), Failed>(())
    })
    .with_ignored_flag(missing)
}

fn installed(program: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|folder| folder.join(program).is_file())
}

fn open() -> RunningListener {
    RunningListener::new(HttpOptions::default())
}

/// Runs a program, which must end well; answers what it wrote.
fn run(program: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{said}", output.status);
    output.stdout
}

fn curl(arguments: &[&str]) -> String {
    let common = ["-sS", "--max-time", "30"];
    String::from_utf8_lossy(&run("curl", &[&common[..], arguments].concat())).into_owned()
}

fn name(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn curl_ranges() {
    let listener = open();
    let bytes = content(1_000_000);
    listener.file("a folder/clip ü.ts", &bytes);
    let url = listener.url("/a%20folder/clip%20%C3%BC.ts");
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("clip.ts");

    fs::write(&path, &bytes[..400_000]).unwrap();
    curl(&["-C", "-", "-o", name(&path), &url]);
    assert!(fs::read(&path).unwrap() == bytes, "the resumed file differs");

    curl(&["-r", "-5", "-o", name(&path), &url]);
    assert_eq!(fs::read(&path).unwrap(), &bytes[999_995..]);
    let parts = run("curl", &["-sS", "-r", "0-1,500000-500001", &url]);
    assert!(parts.windows(2).any(|window| window == &bytes[500_000..500_002]));
    let head = curl(&["-I", &url]);
    assert!(
        head.contains("Content-Length: 1000000\r\n") && head.contains("Accept-Ranges: bytes\r\n"),
        "{head}"
    );
    let code = curl(&["-o", "/dev/null", "-w", "%{http_code}", "-r", "1000000-", &url]);
    assert_eq!(code, "416");
}

fn curl_conditions() {
    let listener = open();
    listener.file("clip.ts", b"clip");
    let url = listener.url("/clip.ts");
    let out = tempfile::tempdir().unwrap();
    let tag = out.path().join("tag");
    let code =
        |arguments: &[&str]| curl(&[&["-o", "/dev/null", "-w", "%{http_code}"], arguments, &[&url]].concat());
    assert_eq!(code(&["--etag-save", name(&tag)]), "200");
    assert_eq!(code(&["--etag-compare", name(&tag)]), "304");
    assert_eq!(code(&["-z", "1 Dec 2023"]), "304");
    assert_eq!(code(&["-z", "1 Nov 2023"]), "200");
    assert_eq!(code(&["--http1.0"]), "200");
    assert_eq!(code(&["--data", "x"]), "405");
    assert_eq!(code(&["--upload-file", "/etc/os-release", "-H", "Transfer-Encoding: chunked"]), "405");
    let json = curl(&["-H", "Accept: application/json", &listener.url("/")]);
    assert!(json.contains("\"name\": \"clip.ts\""), "{json}");
}

fn wget_resumes() {
    let listener = open();
    let bytes = content(1_000_000);
    listener.file("clip.ts", &bytes);
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("clip.ts");
    let url = listener.url("/clip.ts");
    let common = ["-q", "--tries=1", "--timeout=30", "-c", "-P", name(out.path())];
    for resumed_from in [0, 1, 999_999, 1_000_000] {
        fs::write(&path, &bytes[..resumed_from]).unwrap();
        run("wget", &[&common[..], &[&url]].concat());
        assert!(fs::read(&path).unwrap() == bytes, "resumed from {resumed_from}, the file differs");
    }
}

/// Ten seconds of a test picture and a tone.
fn make_clip(path: &Path, arguments: &[&str]) {
    let source = [
        "-v",
        "error",
        "-nostdin",
        "-y",
        "-f",
        "lavfi",
        "-i",
        "testsrc2=size=640x360:rate=25:duration=10",
        "-f",
        "lavfi",
        "-i",
        "sine=duration=10",
    ];
    run("ffmpeg", &[&source[..], arguments, &[name(path)]].concat());
}

/// The hash of each packet that ffmpeg reads.
fn packets(arguments: &[&str]) -> String {
    let read = ["-v", "error", "-nostdin"];
    let write = ["-c", "copy", "-f", "framehash", "-"];
    String::from_utf8(run("ffmpeg", &[&read[..], arguments, &write].concat())).unwrap()
}

fn ffmpeg_transport_stream() {
    let listener = open();
    let clip = listener.path().join("clip.ts");
    make_clip(&clip, &["-c:v", "mpeg2video", "-b:v", "4M", "-c:a", "mp2"]);
    let expected = packets(&["-i", name(&clip)]);
    assert!(expected.lines().count() > 500);
    assert_eq!(packets(&["-i", &listener.url("/clip.ts")]), expected);
}

fn ffmpeg_mp4() {
    let listener = open();
    let clip = listener.path().join("clip.mp4");
    // The index is at the end, so that it must be asked for by a range.
    make_clip(&clip, &["-c:v", "mpeg4", "-b:v", "8M", "-c:a", "aac"]);
    let expected = packets(&["-ss", "7", "-i", name(&clip)]);
    assert_eq!(packets(&["-ss", "7", "-i", &listener.url("/clip.mp4")]), expected);
}

/// A page that seeks near the end, back to the middle, and tells the test where it is by asking for an
/// address.
const PAGE: &str = "<!DOCTYPE html><title>seek</title><video id=v muted preload=auto src=clip.mp4></video><script>\
const v = document.getElementById('v'), targets = [8.5, 4];\
const tell = what => fetch('BEACON/' + what, {mode: 'no-cors'});\
v.onerror = () => tell('error/' + v.error.message);\
v.onloadedmetadata = () => { v.currentTime = targets.shift(); };\
v.onseeked = async () => {\
  await tell('at/' + v.currentTime + '/of/' + v.seekable.end(0) + '/width/' + v.videoWidth);\
  if (targets.length) v.currentTime = targets.shift(); else tell('done');\
};</script>";

fn browser() {
    let listener = open();
    let clip = listener.path().join("clip.mp4");
    make_clip(&clip, &["-c:v", "libx264", "-b:v", "8M", "-pix_fmt", "yuv420p", "-c:a", "aac"]);
    let beacon = TcpListener::bind("127.0.0.1:0").unwrap();
    let page = PAGE.replace("BEACON", &format!("http://{}", beacon.local_addr().unwrap()));
    fs::write(listener.path().join("page.html"), page).unwrap();
    let told = listen(beacon);
    let profile = tempfile::tempdir().unwrap();
    let browser = Browser::start(&listener.url("/page.html"), profile.path());
    for expected in ["/at/8.5/of/10", "/at/4/of/10", "/done"] {
        let path = told.recv_timeout(Duration::from_secs(60)).expect("the page tells how it goes");
        assert!(path.starts_with(expected), "{path} instead of {expected}");
    }
    drop(browser);
}

/// Paths of the requests to a socket, each answered with nothing.
fn listen(beacon: TcpListener) -> mpsc::Receiver<String> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in beacon.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            // A connection that the browser opens in advance carries no request.
            if BufReader::new(&stream).read_line(&mut line).unwrap_or(0) == 0 {
                continue;
            }
            stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap_or_default();
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            if tell.send(path).is_err() {
                return;
            }
        }
    });
    told
}

/// A browser that ends when this is dropped.
struct Browser(Child);

impl Browser {
    fn start(url: &str, profile: &Path) -> Self {
        let child = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg(format!("--user-data-dir={}", name(profile)))
            .args(["--remote-debugging-port=0", url])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let killed = self.0.kill().and_then(|()| self.0.wait());
        assert!(killed.is_ok() || std::thread::panicking(), "the browser cannot be ended");
    }
}

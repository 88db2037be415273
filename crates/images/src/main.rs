//! `wirepath-images`: serves stored pictures, parts of them, gray or smaller ones.

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use tokio::sync::watch;
use wirepath_images::PictureSite;
use wirepath_net::folder::Folder;
use wirepath_net::program::{self, Service, ServiceOptions, announce};

/// Serves stored pictures over HTTP, cropped, gray or scaled down
#[derive(Parser)]
#[command(
    name = "wirepath-images",
    version = env!("WIREPATH_VERSION"), // with the commit, from the build script
    max_term_width = 100,
    mut_arg("access_log", |log| {
        log.help("Log each HTTP request: method, path, query, status, bytes, time and agent [default: no access log]")
    }),
    mut_arg("http", |http| http.required(false).default_value("0.0.0.0:8090")),
    after_help = "\
Pictures are binary PPM and PGM files of 8 or 16 bits per sample, and
uncompressed TIFF and BigTIFF (COG) files of 8 bits, in strips or tiles.
Cropped and computed pictures are PPM or PGM.

Whole:   curl -O http://HOST:8090/folder/picture.ppm
Part:    .../picture.ppm?crop=X,Y,WIDTH,HEIGHT
Gray:    .../picture.ppm?gray
Smaller: .../picture.ppm?scale=1/3&method=integral   (means of squares)
         .../picture.ppm?scale=4/7&method=middle     (middle pixels)
         .../picture.ppm?scale=4/7&method=linear     (linear interpolation)
Combined steps are done in this order: crop, gray, scale.
From the overviews of a TIFF: .../map.tif?scale=1/8&method=integral&overviews
Size:    .../picture.ppm?info                        (JSON)
View:    .../picture.ppm?view, or a folder, in a browser
State:   /api/status, /metrics

The log goes to standard error; RUST_LOG sets its level (default: info).
When the listener is open, one line goes to standard output: ready http=http://HOST:PORT/
SIGTERM, SIGINT or SIGHUP drains for at most 10 s; a second signal ends at once.

Exit codes: 0 success; 1 failure, standard error has the reason; 2 invalid
arguments; 3 connections were reset when the drain timed out"
)]
struct Arguments {
    /// Folder of the pictures; write ./NAME if its name is that of a command
    folder: PathBuf,

    #[command(flatten)]
    service: ServiceOptions,
}

fn main() {
    let arguments = wirepath_manual::parse::<Arguments>();
    program::run("wirepath-images", |draining| serve(arguments, draining))
}

async fn serve(arguments: Arguments, draining: watch::Receiver<bool>) -> Result<()> {
    let folder = Folder::open(&arguments.folder)?;
    let Service { engine, listener, socket, endpoint, .. } = arguments.service.start()?;
    announce(&format!("http=http://{}/", socket.local_addr()?))?;
    listener.with_queries_in_log().serve(socket, PictureSite::new(folder, endpoint), engine, draining).await;
    Ok(())
}

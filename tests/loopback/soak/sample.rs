//! Counts of a server, taken from time to time.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wirepath_tests::Deadline;
use wirepath_tests::process::status_number;
use wirepath_tests::server::Server;

use super::Bed;
use crate::packing::metric;

/// Counts of a server at a time.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub(super) descriptors: usize,
    pub(super) threads: u64,
    pub(super) memory_kib: u64,
    pub(super) sessions: u64,
    /// Playbacks of the engine, which have a timer each.
    pub(super) playbacks: u64,
    /// Tasks of the engine: playbacks and downloads.
    pub(super) tasks: u64,
    pub(super) connections: u64,
    pub(super) packings: u64,
    pub(super) packing_memory_bytes: u64,
    pub(super) open_assets: u64,
}

impl Sample {
    pub(super) fn of(server: &Server) -> Result<Sample> {
        let count = |name: &str| metric(server, name);
        Ok(Sample {
            descriptors: server.descriptors()?,
            threads: server.threads()?,
            // Without what files have mapped: these pages are the page cache's.
            memory_kib: status_number(server.process.pid(), "RssAnon")?,
            sessions: count("wirepath_rtsp_sessions")?,
            playbacks: count("wirepath_playback_playbacks")?,
            tasks: count("wirepath_engine_tasks")?,
            connections: count("wirepath_rtsp_connections")?,
            packings: count("wirepath_images_packings")?,
            packing_memory_bytes: count("wirepath_images_packing_memory_bytes")?,
            open_assets: count("wirepath_images_open")?,
        })
    }

    /// Returns whether nobody is served, and nothing is packed.
    pub(super) fn is_idle(&self) -> bool {
        [self.sessions, self.playbacks, self.connections, self.packings, self.packing_memory_bytes] == [0; 5]
    }

    /// Something of which there is more than before.
    pub(super) fn leaks(&self, before: &Sample) -> Option<&'static str> {
        let counts = [
            ("descriptors", self.descriptors as u64, before.descriptors as u64),
            ("threads", self.threads, before.threads),
            ("tasks", self.tasks, before.tasks),
        ];
        counts.into_iter().find(|(_, now, before)| now > before).map(|(name, ..)| name)
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "descriptors": self.descriptors, "threads": self.threads, "memory_kib": self.memory_kib,
            "sessions": self.sessions, "playbacks": self.playbacks, "tasks": self.tasks,
            "connections": self.connections, "packings": self.packings,
            "packing_memory_bytes": self.packing_memory_bytes, "open_assets": self.open_assets,
        })
    }
}

/// Takes forty samples or so, up to a moment.
pub(super) fn every(bed: &Bed, until: Deadline) -> Result<Vec<Sample>> {
    let interval = (bed.seconds as f64 / 40.0).max(0.5);
    let mut samples = Vec::new();
    while !until.has_passed() {
        samples.push(Sample::of(&bed.server).context("sampling the server")?);
        let pause = Deadline::seconds(interval.min(until.left().as_secs_f64()));
        while !pause.has_passed() {
            std::thread::park_timeout(pause.left());
        }
    }
    Ok(samples)
}

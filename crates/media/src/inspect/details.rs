//! Details of programmes for inspection: names of services, and video formats.

use std::collections::BTreeMap;

use crate::ts::{Codec, Packet, Psi, SERVICE_PID, Service, Services, VideoFormat, VideoProbe};

/// Collector of details from packets.
#[derive(Debug, Default)]
pub(super) struct Details {
    psi: Psi,
    services: Services,
    videos: BTreeMap<u16, VideoProbe>,
}

impl Details {
    pub(super) fn push(&mut self, packet: Packet<'_>) {
        let pid = packet.pid();
        if pid == SERVICE_PID {
            self.services.push(packet);
        } else if let Some(video) = self.videos.get_mut(&pid) {
            video.push(packet);
        } else if self.psi.reads(pid) && self.psi.push(packet) {
            let streams = self.psi.programmes().flat_map(|programme| &programme.streams);
            for stream in streams {
                if matches!(stream.codec, Codec::H264 | Codec::Mpeg1Video | Codec::Mpeg2Video) {
                    self.videos.entry(stream.pid).or_insert_with(|| VideoProbe::new(stream.codec));
                }
            }
        }
    }

    /// Returns services by programme number, and video formats by PID.
    pub(super) fn finish(self) -> (BTreeMap<u16, Service>, BTreeMap<u16, VideoFormat>) {
        let videos = self.videos.into_iter().filter_map(|(pid, video)| Some((pid, video.finish()?)));
        (self.services.into_services(), videos.collect())
    }
}

//! ffmpeg, which decodes what it plays.

use anyhow::{Context, Result, ensure};
use wirepath_tests::frames;

use crate::cases::{Bed, Cannot, Case, Codec, LIMIT_S, Operation, SEEK_S, Transport};

/// Last frames that ffmpeg may keep to itself: it passes a picture on when the next begins, and a transport
/// stream's sound by whole packets of pictures.
const MISSING: usize = 3;

pub(crate) fn play(case: &Case, bed: &Bed) -> Result<()> {
    match (case.format.video, case.operation) {
        (Codec::Av1, _) => return Err(Cannot("has AV1 over RTP from version 8 on only").into()),
        (_, Operation::Pause) => {
            return Err(Cannot("not tried: only ffplay pauses, which needs a window").into());
        }
        (_, Operation::Speed | Operation::Scale | Operation::Rewind) => {
            return Err(Cannot("requests neither Speed nor Scale").into());
        }
        (Codec::TransportStream, _) if case.transport.is_srtp() => {
            return Err(Cannot("reads no SRTP keys of transport streams").into());
        }
        (_, Operation::Play | Operation::Seek) => {}
    }
    let transport = match case.transport {
        Transport::Udp | Transport::SrtpUdp => "udp",
        Transport::Tcp | Transport::Tls | Transport::SrtpTls => "tcp",
        Transport::Tunnel => "http",
        Transport::Multicast => "udp_multicast",
    };
    let (seek, agent) = (SEEK_S.to_string(), case.agent());
    let mut options = vec!["-rtsp_transport", transport, "-user_agent", &agent];
    if case.operation == Operation::Seek {
        options.extend(["-ss", &seek]);
    }
    // It has UDP with `rtsp` URLs only, so TLS ends in front of it.
    let tunnel = (case.transport == Transport::SrtpUdp).then(|| bed.tunnel(case)).transpose()?;
    let url = match &tunnel {
        Some(tunnel) => format!("rtsp://{}/{}{}", tunnel.address, case.format.file, case.format.query),
        None => bed.url(case)?,
    };
    let (came, seen) = bed.watch(case, || frames::decode(&options, &url, LIMIT_S))?;
    case.ensure_seen(&seen)?;
    ensure!(came.len() == 2, "{} of 2 tracks came", came.len());
    case.ensure_pictures(&came[0], bed, MISSING).context("pictures")?;
    case.ensure_sound(&came[1], bed, MISSING + 4).context("sound")
}

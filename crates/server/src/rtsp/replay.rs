//! ONVIF replay: parameters of a PLAY beyond RFC 2326 (ONVIF Streaming Specification, section "Playback").

use super::player::ReplayPlay;
use super::session::Session;
use wirepath_media::rtsp::{Frames, Refusal, Request, Response, StatusCode};
use wirepath_playback::Speed;

/// Reason for which other presentations have no replay.
pub(super) const ONLY_ARCHIVES: &str =
    "Require: onvif-replay: only archives have the wall clock of recordings";

/// ONVIF replay parameters that a PLAY requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AskedReplay {
    pub(super) play: ReplayPlay,
    /// True if the PLAY replaces the active one and those that wait.
    pub(super) is_immediate: bool,
    /// Value of `Rate-Control`, if the request has it.
    rate_control: Option<bool>,
    /// Frames that are sent, if the request has `Frames`.
    frames: Option<Frames>,
}

/// Refuses a request that requires replay of a session that was set up without it.
pub(super) fn ensure_replay_is_possible(request: &Request, session: &Session) -> Result<(), Refusal> {
    if session.is_replay || !request.requires_replay() {
        return Ok(());
    }
    Err(match session.playback.clock_origin_us() {
        Some(_) => {
            let why = "Require: onvif-replay: the session was set up without it; SETUP with it";
            Refusal::new(StatusCode::MethodNotValidInThisState, why)
        }
        None => Refusal::new(StatusCode::OptionNotSupported, ONLY_ARCHIVES),
    })
}

impl AskedReplay {
    /// Reads the request to play of a session, or refuses what cannot be done. Sessions that were set up
    /// without replay get nothing of it.
    pub(super) fn of(request: &Request, session: &Session) -> Result<AskedReplay, Refusal> {
        if !session.is_replay {
            ensure_replay_is_possible(request, session)?;
            let rate_control = request.has_rate_control().then_some(true);
            return Ok(AskedReplay { rate_control, ..AskedReplay::default() });
        }
        if request.scale()?.is_some_and(|scale| scale < 0.0) {
            let why = "Scale: reverse replay is not supported; play forward";
            return Err(Refusal::new(StatusCode::NotImplemented, why));
        }
        let rate_control = request.rate_control()?;
        let unpaced = rate_control == Some(false);
        if unpaced && !session.info.is_interleaved() {
            let why = "Rate-Control: no: over UDP nothing limits the rate; SETUP with RTP/AVP/TCP";
            return Err(Refusal::new(StatusCode::UnsupportedTransport, why));
        }
        // Pictures to which no others refer are not known, so all are sent.
        let frames = request.frames()?.map(|frames| match frames {
            Frames::Predicted => Frames::All,
            frames => frames,
        });
        let intra_us = match frames {
            Some(Frames::Intra { interval_us }) if session.has_intra() => Some(interval_us),
            Some(Frames::Intra { .. }) => {
                let why = "Frames: intra: a track of video with random access points is needed, \
                           which the session has not; packets of transport streams mix tracks";
                return Err(Refusal::new(StatusCode::NotImplemented, why));
            }
            _ => None,
        };
        let play = ReplayPlay { cseq: request.cseq as u8, unpaced, intra_us };
        Ok(AskedReplay { play, is_immediate: request.is_immediate()?, rate_control, frames })
    }

    /// Returns whether the request says how replay is to be played.
    pub(super) fn has_fields(&self) -> bool {
        self.rate_control.is_some() || self.frames.is_some()
    }

    /// Speed of the range: packets without pace count as the fastest.
    pub(super) fn speed(&self, asked: Option<Speed>) -> Option<Speed> {
        if self.play.unpaced { Some(Speed::MOST) } else { asked }
    }

    /// The response with the values in effect.
    pub(super) fn answer(&self, response: Response) -> Response {
        let response = match self.rate_control {
            Some(is_controlled) => response.rate_control(is_controlled),
            None => response,
        };
        match self.frames {
            Some(frames) => response.frames(frames),
            None => response,
        }
    }
}

//! Values of options of `wirepath serve` that are one of a few names, or a range.

use std::str::FromStr;

use clap::ValueEnum;
use wirepath_server::{DataPath, Gaps, ImagePolicy, SrtpKeys, TimeZone};

/// Rule by which sessions are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AdmissionChoice {
    /// Refuse sessions if the engine threads have no time for them, or while other sessions are late
    Measured,
    /// Apply only the counted limits, such as --max-sessions
    Off,
}

/// Keys of SRTP that DESCRIBE sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SrtpChoice {
    /// No SRTP: media go over the TLS connection only
    Off,
    /// Keys by MIKEY, for clients that request RTP/SAVP, such as GStreamer
    Mikey,
    /// Keys by MIKEY and, for movies, also by SDES, for ffmpeg; clients that ignore SDES cannot decode movies
    Sdes,
}

impl From<SrtpChoice> for SrtpKeys {
    fn from(choice: SrtpChoice) -> SrtpKeys {
        match choice {
            SrtpChoice::Off => SrtpKeys::None,
            SrtpChoice::Mikey => SrtpKeys::Mikey,
            SrtpChoice::Sdes => SrtpKeys::MikeyAndSdes,
        }
    }
}

/// Assets that wire images are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyChoice {
    /// Assets played so often that an image pays off
    Auto,
    /// All played assets
    All,
    /// None, except for files whose packets are not 188 bytes long
    None,
}

impl From<PolicyChoice> for ImagePolicy {
    fn from(choice: PolicyChoice) -> ImagePolicy {
        match choice {
            PolicyChoice::Auto => ImagePolicy::Auto,
            PolicyChoice::All => ImagePolicy::All,
            PolicyChoice::None => ImagePolicy::None,
        }
    }
}

/// Zone of times in names of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ZoneChoice {
    /// UTC
    Utc,
    /// The server's time zone
    Local,
}

impl From<ZoneChoice> for TimeZone {
    fn from(choice: ZoneChoice) -> TimeZone {
        match choice {
            ZoneChoice::Utc => TimeZone::Utc,
            ZoneChoice::Local => TimeZone::Local,
        }
    }
}

/// Gaps between recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GapsChoice {
    /// The next recording follows at once
    Skip,
    /// Nothing is sent for the duration of the gap
    Hold,
}

impl From<GapsChoice> for Gaps {
    fn from(choice: GapsChoice) -> Gaps {
        match choice {
            GapsChoice::Skip => Gaps::Skip,
            GapsChoice::Hold => Gaps::Hold,
        }
    }
}

/// Choice of data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathChoice {
    /// `auto`: the cheapest path that works.
    Auto,
    /// The path with this name, as long as it works.
    Named(DataPath),
}

impl FromStr for PathChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<PathChoice, String> {
        match text {
            "auto" => Ok(PathChoice::Auto),
            name => name.parse().map(PathChoice::Named).map_err(|error| format!("{error}, or auto")),
        }
    }
}

/// Range of UDP ports, including both ends. Contains at least one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortRange {
    pub(crate) first: u16,
    pub(crate) last: u16,
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<PortRange, String> {
        let (first, last) = text.split_once('-').ok_or("expected FIRST-LAST, such as 10000-32767")?;
        let port = |text: &str| {
            text.trim().parse::<u16>().map_err(|_| format!("invalid port {text:?}: expected up to 65535"))
        };
        let (first, last) = (port(first)?, port(last)?);
        if first < 1024 {
            return Err(format!("port {first} is reserved: expected ports from 1024"));
        }
        if last < first {
            return Err(format!("the first port, {first}, is greater than the last, {last}"));
        }
        if wirepath_server::port_pairs(&(first..=last)) == 0 {
            return Err(format!("{first}-{last} has no even port before an odd one, as RTP and RTCP need"));
        }
        Ok(PortRange { first, last })
    }
}

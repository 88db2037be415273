//! Track entries (RFC 9559 section 5.1.4).

use super::Error;
use super::ebml::Element;
use super::id::{
    AUDIO, BIT_DEPTH, CHANNELS, CODEC_DELAY, CODEC_ID, CODEC_PRIVATE, CONTENT_ENCODING,
    CONTENT_ENCODING_TYPE, CONTENT_ENCODINGS, CONTENT_ENCRYPTION, DEFAULT_DURATION, LANGUAGE, LANGUAGE_BCP47,
    PIXEL_HEIGHT, PIXEL_WIDTH, SAMPLING_FREQUENCY, TRACK_NUMBER, TRACK_TYPE, VIDEO,
};
use crate::track::Codec;

/// Fields of a `TrackEntry`.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) number: u64,
    pub(super) kind: u64,
    /// Languages: ISO 639-2 code, and BCP 47 tag.
    pub(super) language: &'a str,
    pub(super) tag: Option<&'a str>,
    pub(super) default_duration_ns: Option<u64>,
    pub(super) delay_ns: u64,
    /// Encryption or compression, which replaces the codec.
    pub(super) encoding: Option<Codec>,
    pub(super) picture: Option<(u16, u16)>,
    pub(super) codec: &'a str,
    pub(super) private: &'a [u8],
    pub(super) sample_rate: f64,
    pub(super) channels: u64,
    pub(super) bits: u64,
}

impl<'a> Entry<'a> {
    /// Reads a `TrackEntry`.
    pub(super) fn read(found: &Element<'a>) -> Result<Self, Error> {
        let mut entry = Entry {
            number: 0,
            kind: 0,
            language: "eng", // Default of the element.
            tag: None,
            default_duration_ns: None,
            delay_ns: 0,
            encoding: None,
            picture: None,
            codec: "",
            private: &[],
            sample_rate: 8000.0,
            channels: 1,
            bits: 0,
        };
        for field in found.children() {
            let field = field?;
            match field.header.id {
                TRACK_NUMBER => entry.number = field.unsigned()?,
                TRACK_TYPE => entry.kind = field.unsigned()?,
                LANGUAGE => entry.language = field.text(),
                LANGUAGE_BCP47 => entry.tag = Some(field.text()),
                DEFAULT_DURATION => entry.default_duration_ns = Some(field.unsigned()?).filter(|ns| *ns > 0),
                CODEC_DELAY => entry.delay_ns = field.unsigned()?,
                CODEC_ID => entry.codec = field.text(),
                CODEC_PRIVATE => entry.private = field.data,
                CONTENT_ENCODINGS => entry.encoding = encoding(&field)?,
                VIDEO => entry.picture = picture(&field)?,
                AUDIO => entry.audio(&field)?,
                _ => {}
            }
        }
        Ok(entry)
    }

    fn audio(&mut self, audio: &Element<'_>) -> Result<(), Error> {
        for field in audio.children() {
            let field = field?;
            match field.header.id {
                SAMPLING_FREQUENCY => self.sample_rate = field.float()?,
                CHANNELS => self.channels = field.unsigned()?,
                BIT_DEPTH => self.bits = field.unsigned()?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Width and height, if both are valid.
fn picture(video: &Element<'_>) -> Result<Option<(u16, u16)>, Error> {
    let (mut width, mut height) = (0, 0);
    for field in video.children() {
        let field = field?;
        match field.header.id {
            PIXEL_WIDTH => width = field.unsigned()?,
            PIXEL_HEIGHT => height = field.unsigned()?,
            _ => {}
        }
    }
    let size = u16::try_from(width).ok().zip(u16::try_from(height).ok());
    Ok(size.filter(|(width, height)| *width > 0 && *height > 0))
}

/// Encryption or compression of samples (section 5.1.4.1.31). Header stripping is refused like other
/// compression, because the stripped bytes would have to be sent before each frame.
fn encoding(encodings: &Element<'_>) -> Result<Option<Codec>, Error> {
    let mut found = None;
    for encoding in encodings.children() {
        let encoding = encoding?;
        if encoding.header.id != CONTENT_ENCODING {
            continue;
        }
        found = found.or(Some(Codec::Compressed));
        for field in encoding.children() {
            let field = field?;
            let encrypts = match field.header.id {
                CONTENT_ENCODING_TYPE => field.unsigned()? == 1,
                CONTENT_ENCRYPTION => true,
                _ => false,
            };
            if encrypts {
                found = Some(Codec::Encrypted);
            }
        }
    }
    Ok(found)
}

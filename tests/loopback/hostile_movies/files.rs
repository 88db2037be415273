//! A film whose boxes or elements are changed, one lie in each file.

use anyhow::{Context, Result};
use wirepath_tests::clips;

/// A file with one lie.
pub(crate) struct Hostile {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Depth and number of boxes that a reader might follow by recursion, or keep a record of.
const MANY: usize = 20_000;

/// Changes of a good MP4 file. Places are from the first byte of a box's type, behind which come version and
/// flags (ISO/IEC 14496-12).
pub(crate) fn mp4() -> Result<Vec<Hostile>> {
    let film = std::fs::read(clips::film(2, "libx264", "aac", "mp4")?)?;
    let patched = |kind: &[u8; 4], at: usize, bytes: &[u8]| patch(&film, kind, at, bytes);
    let files: Vec<(&str, Result<Vec<u8>>)> = vec![
        ("track-of-size-0", before(&film, b"trak", &0u32.to_be_bytes())),
        ("track-of-7-bytes", before(&film, b"trak", &7u32.to_be_bytes())),
        ("movie-of-4-gib", before(&film, b"moov", &u32::MAX.to_be_bytes())),
        ("box-of-2-to-the-63", appended(&film, &large(b"free", 1 << 63))),
        ("second-movie-of-2-to-the-63", appended(&film, &large(b"moov", 1 << 63))),
        ("times-beyond-their-box", patched(b"stts", 8, &u32::MAX.to_be_bytes())),
        ("billion-samples-in-an-entry", patched(b"stts", 12, &1_000_000_000u32.to_be_bytes())),
        (
            "billion-samples-of-a-byte",
            patched(b"stsz", 8, &[1u32.to_be_bytes(), u32::MAX.to_be_bytes()].concat()),
        ),
        ("sizes-beyond-their-box", patched(b"stsz", 12, &u32::MAX.to_be_bytes())),
        ("sample-of-4-gib", patched(b"stsz", 16, &u32::MAX.to_be_bytes())),
        ("chunk-of-4-billion-samples", patched(b"stsc", 16, &u32::MAX.to_be_bytes())),
        ("chunk-0", patched(b"stsc", 12, &0u32.to_be_bytes())),
        ("chunk-beyond-the-end", patched(b"stco", 12, &0xFFFF_FF00u32.to_be_bytes())),
        ("chunks-beyond-their-box", patched(b"stco", 8, &u32::MAX.to_be_bytes())),
        ("no-time-scale", patched(b"mdhd", 16, &0u32.to_be_bytes())),
        ("edit-of-all-time", patched(b"elst", 12, &[0xFF; 8])),
        ("edits-beyond-their-box", patched(b"elst", 8, &u32::MAX.to_be_bytes())),
        ("deep-boxes", appended(&film, &nested(b"moov", MANY))),
        ("deep-movie", movie(&film, &nested(b"trak", MANY))),
        ("many-tracks", movie(&film, &parent(b"trak", &[]).repeat(MANY))),
    ];
    named(files, "mp4")
}

/// Changes of a good Matroska file. Places are from the first byte of an element's identifier (RFC 9559).
pub(crate) fn matroska() -> Result<Vec<Hostile>> {
    let film = std::fs::read(clips::film(2, "libx264", "aac", "mkv")?)?;
    const CLUSTER: [u8; 4] = [0x1F, 0x43, 0xB6, 0x75];
    const TRACKS: [u8; 4] = [0x16, 0x54, 0xAE, 0x6B];
    const SEEK_POSITION: [u8; 2] = [0x53, 0xAC];
    const TIMESTAMP_SCALE: [u8; 3] = [0x2A, 0xD7, 0xB1];
    const CODEC_PRIVATE: [u8; 2] = [0x63, 0xA2];
    const CUES: [u8; 4] = [0x1C, 0x53, 0xBB, 0x6B];
    const LARGEST: [u8; 8] = [0x01, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE];
    let patched = |kind: &[u8], at: usize, bytes: &[u8]| patch(&film, kind, at, bytes);
    let files: Vec<(&str, Result<Vec<u8>>)> = vec![
        ("cluster-of-2-to-the-56", patched(&CLUSTER, 4, &LARGEST)),
        ("tracks-of-2-to-the-56", patched(&TRACKS, 4, &LARGEST)),
        ("cues-of-2-to-the-56", patched(&CUES, 4, &LARGEST)),
        // A list of places that names itself, and one beyond the end.
        ("list-that-names-itself", patched(&SEEK_POSITION, 3, &[0])),
        ("list-beyond-the-end", patched(&SEEK_POSITION, 3, &[0xFF])),
        ("no-time-scale", patched(&TIMESTAMP_SCALE, 4, &[0, 0, 0])),
        ("times-of-centuries", patched(&TIMESTAMP_SCALE, 4, &[0xFF, 0xFF, 0xFF])),
        ("long-codec-private", patched(&CODEC_PRIVATE, 2, &[0x7F, 0xFE])),
        ("deep-elements", appended(&film, &[0x1F, 0x43, 0xB6, 0x75, 0xFF].repeat(MANY))),
        ("laced-block-that-lies", laced(&film)),
        ("cut-in-the-first-cluster", cut(&film, &CLUSTER)),
    ];
    named(files, "mkv")
}

fn named(files: Vec<(&str, Result<Vec<u8>>)>, extension: &str) -> Result<Vec<Hostile>> {
    let named = files.into_iter().map(|(name, bytes)| {
        let bytes = bytes.with_context(|| format!("making {name}"))?;
        Ok(Hostile { name: format!("{name}.{extension}"), bytes })
    });
    named.collect()
}

/// The file with other bytes behind the first place of `kind`.
fn patch(film: &[u8], kind: &[u8], at: usize, bytes: &[u8]) -> Result<Vec<u8>> {
    let start = find(film, kind)? + at;
    let mut film = film.to_vec();
    film.get_mut(start..start + bytes.len()).context("a place beyond the end")?.copy_from_slice(bytes);
    Ok(film)
}

/// The file with another size of the first box of a kind, which stands before its type.
fn before(film: &[u8], kind: &[u8; 4], size: &[u8; 4]) -> Result<Vec<u8>> {
    let start = find(film, kind)?.checked_sub(4).context("a box without a size")?;
    let mut film = film.to_vec();
    film[start..start + 4].copy_from_slice(size);
    Ok(film)
}

fn appended(film: &[u8], bytes: &[u8]) -> Result<Vec<u8>> {
    Ok([film, bytes].concat())
}

/// The file up to the middle of what begins with `kind`.
fn cut(film: &[u8], kind: &[u8]) -> Result<Vec<u8>> {
    Ok(film[..find(film, kind)? + 40].to_vec())
}

/// The first block says that it is laced in EBML sizes, of which there are 256, and its sizes are what was media.
fn laced(film: &[u8]) -> Result<Vec<u8>> {
    const SIMPLE_BLOCK: u8 = 0xA3;
    let cluster = find(film, &[0x1F, 0x43, 0xB6, 0x75])?;
    let block = film[cluster..].iter().position(|&byte| byte == SIMPLE_BLOCK).context("no block")? + cluster;
    // A size begins with as many zero bits as it has further bytes; then track, two bytes of time, flags, lace count.
    let size_bytes = film[block + 1].leading_zeros() as usize + 1;
    let flags = block + 1 + size_bytes + 3;
    let mut film = film.to_vec();
    film[flags] |= 0x06;
    film[flags + 1] = 0xFF;
    Ok(film)
}

/// The file with a `moov` box of its own header and other boxes behind it.
fn movie(film: &[u8], boxes: &[u8]) -> Result<Vec<u8>> {
    let header = [whole_box(film, b"mvhd")?, boxes].concat();
    Ok([whole_box(film, b"ftyp")?, &parent(b"moov", &header)].concat())
}

/// The first box of a kind.
fn whole_box<'a>(film: &'a [u8], kind: &[u8; 4]) -> Result<&'a [u8]> {
    let start = find(film, kind)?.checked_sub(4).context("a box without a size")?;
    let size = u32::from_be_bytes(film[start..start + 4].try_into()?) as usize;
    film.get(start..start + size).context("a box beyond the end")
}

/// The head of a box with a size of 64 bits.
fn large(kind: &[u8; 4], size: u64) -> Vec<u8> {
    [&1u32.to_be_bytes(), kind.as_slice(), &size.to_be_bytes()].concat()
}

fn parent(kind: &[u8; 4], children: &[u8]) -> Vec<u8> {
    let size = u32::try_from(8 + children.len()).expect("less than 4 GiB");
    [&size.to_be_bytes(), kind.as_slice(), children].concat()
}

/// Boxes inside each other, `depth` of them.
fn nested(kind: &[u8; 4], depth: usize) -> Vec<u8> {
    let heads = (1..=depth).rev().map(|inner| {
        let size = u32::try_from(8 * inner).expect("less than 4 GiB");
        [size.to_be_bytes(), *kind].concat()
    });
    heads.collect::<Vec<_>>().concat()
}

fn find(film: &[u8], kind: &[u8]) -> Result<usize> {
    let place = film.windows(kind.len()).position(|window| window == kind);
    place.with_context(|| format!("no {kind:02x?} in the film"))
}

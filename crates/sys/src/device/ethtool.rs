//! Requests to a device's driver: offloads, features, rings, speed (`linux/ethtool.h`).

use std::io;
use std::os::fd::BorrowedFd;

use super::DeviceName;
use crate::ioctl;

/// Returns whether the device computes transport checksums on transmission (`ETHTOOL_GTXCSUM`). Otherwise the
/// CPU reads a payload sent by reference, which is slower than a copy.
///
/// # Errors
/// `EOPNOTSUPP` for devices that do not report it, else errors of `ioctl`.
pub fn offloads_checksums(socket: BorrowedFd<'_>, device: &DeviceName) -> io::Result<bool> {
    ask(socket, device, Question::Checksums)
}

/// Returns whether the device supports scatter-gather (`ETHTOOL_GSG`); otherwise the kernel copies.
pub fn gathers(socket: BorrowedFd<'_>, device: &DeviceName) -> io::Result<bool> {
    ask(socket, device, Question::Gathers)
}

/// Commands whose answer is a `struct ethtool_value` of 0 or 1.
#[derive(Clone, Copy)]
enum Question {
    /// ETHTOOL_GTXCSUM
    Checksums = 0x16,
    /// ETHTOOL_GSG
    Gathers = 0x18,
}

fn ask(socket: BorrowedFd<'_>, device: &DeviceName, question: Question) -> io::Result<bool> {
    let mut value = [question as u32, 0];
    // SAFETY: for these commands the kernel reads and writes a `struct ethtool_value`, which is two words.
    unsafe { ethtool(socket, device, &mut value) }?;
    Ok(value[1] != 0)
}

/// Turns transport checksums on transmission by the device on or off (`ETHTOOL_STXCSUM`). Off also disables
/// its TCP and UDP segmentation, since segments need checksums of their own.
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN`, `EOPNOTSUPP` for devices that cannot change it, else errors of `ioctl`.
pub fn set_checksum_offload(socket: BorrowedFd<'_>, device: &DeviceName, on: bool) -> io::Result<()> {
    let mut value = [0x17, on.into()]; // ETHTOOL_STXCSUM
    // SAFETY: for this command the kernel reads a `struct ethtool_value`, which is two words.
    unsafe { ethtool(socket, device, &mut value) }
}

/// Name of the device's driver (`ETHTOOL_GDRVINFO`).
pub fn driver(socket: BorrowedFd<'_>, device: &DeviceName) -> io::Result<String> {
    let mut info = [0_u32; 49]; // struct ethtool_drvinfo: 196 bytes
    info[0] = 0x3; // ETHTOOL_GDRVINFO
    // SAFETY: for this command the kernel writes a `struct ethtool_drvinfo`, which is as large as `info`.
    unsafe { ethtool(socket, device, &mut info) }?;
    Ok(text_of(&info[1..9])) // 32 bytes, after the command
}

/// Link speed in Mb/s, if the device knows it (`ETHTOOL_GSET`).
pub fn speed_mbps(socket: BorrowedFd<'_>, device: &DeviceName) -> io::Result<Option<u32>> {
    let mut settings = [0_u32; 11]; // struct ethtool_cmd: 44 bytes
    settings[0] = 0x1; // ETHTOOL_GSET
    // SAFETY: for this command the kernel writes a `struct ethtool_cmd`, which is as large as `settings`.
    unsafe { ethtool(socket, device, &mut settings) }?;
    // Halves of the speed: the first half of the word at byte 12, and the first half of the word at byte 28.
    let half = |word: u32| u16::from_ne_bytes([word.to_ne_bytes()[0], word.to_ne_bytes()[1]]);
    let speed = u32::from(half(settings[7])) << 16 | u32::from(half(settings[3]));
    Ok(Some(speed).filter(|speed| *speed != 0 && *speed <= i32::MAX as u32)) // SPEED_UNKNOWN is -1
}

/// Ring sizes of a device, in descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Receive ring.
    pub receive: u32,
    /// Largest possible receive ring.
    pub receive_most: u32,
    /// Transmit ring.
    pub transmit: u32,
    /// Largest possible transmit ring.
    pub transmit_most: u32,
}

/// Ring sizes of the device (`ETHTOOL_GRINGPARAM`).
pub fn rings(socket: BorrowedFd<'_>, device: &DeviceName) -> io::Result<Rings> {
    let mut rings = [0_u32; 9]; // struct ethtool_ringparam
    rings[0] = 0x10; // ETHTOOL_GRINGPARAM
    // SAFETY: for this command the kernel writes a `struct ethtool_ringparam`, which is nine words.
    unsafe { ethtool(socket, device, &mut rings) }?;
    let [_, receive_most, _, _, transmit_most, receive, _, _, transmit] = rings;
    Ok(Rings { receive, receive_most, transmit, transmit_most })
}

/// Feature of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Kernel name, for example `tx-udp-segmentation`.
    pub name: String,
    /// True if the feature is on.
    pub on: bool,
    /// True if the feature can be switched.
    pub changeable: bool,
}

/// All features with names in the kernel, and their states on the device (`ETHTOOL_GFEATURES`).
pub fn features(socket: BorrowedFd<'_>, device: &DeviceName) -> io::Result<Vec<Feature>> {
    const NAMES: u32 = 4; // ETH_SS_FEATURES
    const NAME_WORDS: usize = 8; // ETH_GSTRING_LEN is 32 bytes
    let mut sets = [0x37, 0, 1 << NAMES, 0, 0]; // ETHTOOL_GSSET_INFO: a mask of sets, then the length of each
    // SAFETY: for this command the kernel reads the mask and writes it and, for its one bit, one word behind
    // it.
    unsafe { ethtool(socket, device, &mut sets) }?;
    let count = sets[4] as usize;

    let mut names = vec![0_u32; 3 + count * NAME_WORDS];
    (names[0], names[1]) = (0x1b, NAMES); // ETHTOOL_GSTRINGS
    // SAFETY: for this command the kernel writes three words and the names of all features. Their number is
    // what it just said, and a constant of the running kernel, the same for all devices.
    unsafe { ethtool(socket, device, &mut names) }?;

    let blocks = count.div_ceil(32);
    let mut bits = vec![0_u32; 2 + blocks * 4];
    (bits[0], bits[1]) = (0x3a, blocks as u32); // ETHTOOL_GFEATURES
    // SAFETY: for this command the kernel writes two words and at most as many blocks of four as the second
    // word says.
    unsafe { ethtool(socket, device, &mut bits) }?;

    let features = names[3..].chunks_exact(NAME_WORDS).enumerate().map(|(index, name)| {
        // available, requested, active, never changed
        let block = &bits[2 + index / 32 * 4..][..4];
        let bit = 1 << (index % 32);
        let changeable = block[0] & !block[3] & bit != 0;
        Feature { name: text_of(name), on: block[2] & bit != 0, changeable }
    });
    Ok(features.filter(|feature| !feature.name.is_empty()).collect())
}

/// Sends a request to the device, by any socket of its network namespace; the command is the first word of
/// `data`, which also receives the answer.
///
/// # Safety
/// `data` has the size that the kernel reads and writes for that command.
unsafe fn ethtool(socket: BorrowedFd<'_>, device: &DeviceName, data: &mut [u32]) -> io::Result<()> {
    const SIOCETHTOOL: u32 = 0x8946; // linux/sockios.h
    let mut request = device.request();
    request.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
    // SAFETY: the kernel reads `request`, and reads and writes what its data pointer points to: `data`, which
    // outlives the call and is large enough, as the caller promises.
    unsafe { ioctl(socket, SIOCETHTOOL, &raw mut request) }.map(drop)
}

/// Text in words of memory, up to the first zero byte.
fn text_of(words: &[u32]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

//! `kernel/module/uapi/wirepath.h` in Rust: the structures and numbers shared by the kernel module and its
//! callers. The header documents them; `tests/module_layout.rs` compares the two with a C compiler.

/// Field of a structure, as in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: &'static str,
    /// Offset in bytes.
    pub offset: usize,
    /// Length in bytes.
    pub size: usize,
    /// True for a signed type.
    pub is_signed: bool,
}

/// Structure of numbers, for which all byte values are valid.
///
/// # Safety
/// The type has no gaps, and all byte values are valid.
pub unsafe trait Structure: Copy {
    /// Bytes as seen by the kernel.
    fn bytes(&self) -> &[u8] {
        // SAFETY: it has no gaps, so that all its bytes have values.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }
    }

    /// Structure at the beginning of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is shorter than the structure.
    fn from_bytes(bytes: &[u8]) -> Self {
        assert!(bytes.len() >= size_of::<Self>(), "a structure needs all of its bytes");
        // SAFETY: there are as many bytes, and all are a value of it.
        unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() }
    }
}

/// Declares the structures, all made of numbers, and their properties for the comparison.
macro_rules! structures {
    ($($(#[$about:meta])* $c_name:literal => $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$about])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            #[allow(missing_docs, reason = "the header says what each field means")]
            pub struct $name { $(pub $field: $type),* }

            // SAFETY: it consists of numbers, and where they leave gaps between them this does not compile.
            unsafe impl Structure for $name {}
            const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*);
        )*

        /// Each structure: its C name, its size in bytes and its fields.
        pub const STRUCTURES: &[(&str, usize, &[Field])] = &[$((
            $c_name,
            size_of::<$name>(),
            &[$(Field {
                name: stringify!($field),
                offset: std::mem::offset_of!($name, $field),
                size: size_of::<$type>(),
                is_signed: <$type>::MIN != 0,
            }),*],
        )),*];
    };
}

structures! {
    /// Version, features and limits of the module.
    "wirepath_query" => Query {
        size: u32,
        version: u32,
        features: u64,
        header_bytes_max: u32,
        train_packets_max: u32,
        fragments_max: u32,
        part_count_max: u32,
        table_count_max: u32,
        reserved: u32,
        run_packets_max: u64,
        pinned_bytes: u64,
        reserved2: u64,
    }

    /// Packet or run of packets, and its progress.
    "wirepath_send" => Run {
        size: u32,
        flags: u32,
        socket: i32,
        file: i32,
        offset: u64,
        length: u64,
        packet_bytes: u32,
        train_packets: u32,
        header_kind: u32,
        header_bytes: u32,
        header: u64,
        address: u64,
        address_bytes: u32,
        skip_bytes: u32,
        packets: u64,
        trains: u64,
        bytes: u64,
        copied_bytes: u64,
    }

    /// Packets with one timestamp.
    "wirepath_rtp_time" => RtpTime {
        timestamp: u32,
        packets: u32,
        bytes: u32,
        reserved: u32,
    }

    /// State of the RTP engine.
    "wirepath_rtp" => Rtp {
        size: u32,
        flags: u32,
        ssrc: u32,
        timestamp: u32,
        timestamp_step: u32,
        step_packets: u32,
        sequence: u16,
        payload_type: u8,
        marker: u8,
        position: u32,
        table: u64,
        table_count: u32,
        last_timestamp: u32,
        last_ns: u64,
        packets: u64,
        octets: u64,
    }

    /// Part of a vector.
    "wirepath_part" => Part {
        file: i32,
        flags: u32,
        offset: u64,
        length: u64,
    }

    /// Vector, and its progress.
    "wirepath_sendfilew" => Vector {
        size: u32,
        flags: u32,
        socket: i32,
        part_count: u32,
        parts: u64,
        address: u64,
        address_bytes: u32,
        part_bytes: u32,
        bytes: u64,
        packets: u64,
        copied_bytes: u64,
        reserved: u64,
    }

    /// Packets with one departure time.
    "wirepath_departure" => Departure {
        time_ns: u64,
        packets: u32,
        reserved: u32,
    }

    /// Run paced by the kernel.
    "wirepath_start" => Start {
        size: u32,
        flags: u32,
        send: u64,
        start_ns: u64,
        rate_bytes_per_second: u64,
        departures: u64,
        departure_count: u32,
        reserved: u32,
        handler: u64,
    }

    /// Progress of a paced run.
    "wirepath_status" => Status {
        size: u32,
        state: u32,
        error: i32,
        rtp_sequence: u16,
        reserved: u16,
        packets: u64,
        trains: u64,
        bytes: u64,
        copied_bytes: u64,
        late: u64,
        lateness_max_ns: u64,
        full: u64,
        rtp_packets: u64,
        rtp_octets: u64,
        rtp_last_ns: u64,
        rtp_timestamp: u32,
        rtp_last_timestamp: u32,
        position: u64,
        errors: u64,
        lost_packets: u64,
        dropped_packets: u64,
        last_error: i32,
        reserved2: u32,
    }
}

/// Declares numbers under their C names, and a list of them.
macro_rules! numbers {
    ($($name:ident = $c_name:literal: $type:ty = $value:expr;)*) => {
        $(
            #[doc = concat!("`", $c_name, "`.")]
            pub const $name: $type = $value;
        )*

        /// Each number and its C name.
        pub const NUMBERS: &[(&str, u64)] = &[$(($c_name, $name as u64)),*];
    };
}

/// `_IO`, `_IOW` and `_IOWR` of `WIREPATH_IOC`: the structure's direction and size, and a number
/// (`asm-generic/ioctl.h`).
const fn request<Structure>(direction: u32, number: u32) -> u32 {
    direction << 30 | (size_of::<Structure>() as u32) << 16 | 0xbc << 8 | number
}

const NONE: u32 = 0;
const WRITE: u32 = 1;
const READ_WRITE: u32 = 3;

numbers! {
    VERSION = "WIREPATH_VERSION": u32 = 1;
    QUERY = "WIREPATH_QUERY": u32 = request::<Query>(READ_WRITE, 0);
    SEND = "WIREPATH_SEND": u32 = request::<Run>(READ_WRITE, 1);
    SENDFILEW = "WIREPATH_SENDFILEW": u32 = request::<Vector>(READ_WRITE, 2);
    START = "WIREPATH_START": u32 = request::<Start>(WRITE, 3);
    STATUS = "WIREPATH_STATUS": u32 = request::<Status>(READ_WRITE, 4);
    STOP = "WIREPATH_STOP": u32 = request::<()>(NONE, 5);
    WAIT = "WIREPATH_WAIT": u32 = request::<Status>(READ_WRITE, 6);
    FEATURE_FILES = "WIREPATH_FEATURE_FILES": u64 = 1 << 0;
    FEATURE_MAPPINGS = "WIREPATH_FEATURE_MAPPINGS": u64 = 1 << 1;
    FEATURE_RTP = "WIREPATH_FEATURE_RTP": u64 = 1 << 2;
    FEATURE_REFERENCES = "WIREPATH_FEATURE_REFERENCES": u64 = 1 << 3;
    FEATURE_TRAINS = "WIREPATH_FEATURE_TRAINS": u64 = 1 << 4;
    FEATURE_SENDFILEW = "WIREPATH_FEATURE_SENDFILEW": u64 = 1 << 5;
    FEATURE_URING = "WIREPATH_FEATURE_URING": u64 = 1 << 6;
    FEATURE_RUNS = "WIREPATH_FEATURE_RUNS": u64 = 1 << 7;
    FEATURE_HANDLERS = "WIREPATH_FEATURE_HANDLERS": u64 = 1 << 9;
    FEATURE_MEMBERS = "WIREPATH_FEATURE_MEMBERS": u64 = 1 << 8;
    TO_END = "WIREPATH_TO_END": u64 = u64::MAX;
    HEADER_BYTES_MAX = "WIREPATH_HEADER_BYTES_MAX": usize = 256;
    TRAIN_PACKETS_MAX = "WIREPATH_TRAIN_PACKETS_MAX": u32 = 64;
    PART_COUNT_MAX = "WIREPATH_PART_COUNT_MAX": usize = 1024;
    DONTWAIT = "WIREPATH_DONTWAIT": u32 = 1 << 0;
    COPY = "WIREPATH_COPY": u32 = 1 << 1;
    HEADER_NONE = "WIREPATH_HEADER_NONE": u32 = 0;
    HEADER_GIVEN = "WIREPATH_HEADER_GIVEN": u32 = 1;
    HEADER_RTP = "WIREPATH_HEADER_RTP": u32 = 2;
    MARKER_NEVER = "WIREPATH_MARKER_NEVER": u8 = 0;
    MARKER_ALWAYS = "WIREPATH_MARKER_ALWAYS": u8 = 1;
    MARKER_LAST_OF_GROUP = "WIREPATH_MARKER_LAST_OF_GROUP": u8 = 2;
    MARKER_FIRST = "WIREPATH_MARKER_FIRST": u8 = 3;
    PART_COPY = "WIREPATH_PART_COPY": u32 = 1 << 0;
    PART_END = "WIREPATH_PART_END": u32 = 1 << 1;
    RUN_GOING = "WIREPATH_RUN_GOING": u32 = 0;
    RUN_ENDED = "WIREPATH_RUN_ENDED": u32 = 1;
    RUN_STOPPED = "WIREPATH_RUN_STOPPED": u32 = 2;
}

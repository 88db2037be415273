//! The readers of signed URLs and of key files: no query makes them panic, what was read can be written and read again,
//! and nobody is admitted by a signature of another path, time or key.

use std::net::{IpAddr, Ipv4Addr};

use wirepath_auth::{UrlDenial, UrlKeys, UrlSignature};

/// Key that no input has.
const KEY: &str = "a key that no seed and no mutation has, 7f3a";

/// Most folders of a path whose signatures are tried.
const MOST_FOLDERS: usize = 64;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Reads `data` as a query, as a path that is signed, and as a file of keys.
pub fn fuzz(data: &[u8]) {
    let keys = UrlKeys::parse(KEY).expect("a key");
    if let Ok(query) = std::str::from_utf8(data) {
        read(&keys, query);
        if let Ok(own) = UrlKeys::parse(query) {
            let signed = own.sign((b"a", false), 5, None);
            assert_eq!(own.check(&signed, b"a", CLIENT, 4), Ok(()));
            assert_eq!(keys.check(&signed, b"a", CLIENT, 4), Err(UrlDenial::Wrong));
        }
    }
    let signed = keys.sign((data, true), 5, Some(CLIENT));
    let is_tried = data.split(|&byte| byte == b'/').count() <= MOST_FOLDERS;
    let denial = if is_tried { UrlDenial::Expired } else { UrlDenial::Wrong };
    assert_eq!(keys.check(&signed, &[data, b"/a"].concat(), CLIENT, 5), Err(denial));
    let other = &b"another path"[..];
    let covers = data.is_empty() || data == other;
    assert!(covers || keys.check(&signed, other, CLIENT, 4) == Err(UrlDenial::Wrong));
}

fn read(keys: &UrlKeys, query: &str) {
    let Ok(Some(signature)) = UrlSignature::parse(query) else { return };
    assert_eq!(UrlSignature::parse(&signature.query()), Ok(Some(signature.clone())));
    assert_eq!(keys.check(&signature, b"clip.ts", CLIENT, 0), Err(UrlDenial::Wrong), "{query:?} is admitted");
}

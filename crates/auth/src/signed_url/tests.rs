use std::process::Command;

use proptest::prelude::*;

use super::*;

const KEY: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "fedcba9876543210fedcba9876543210";
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

fn keys(text: &str) -> UrlKeys {
    UrlKeys::parse(text).expect("valid keys")
}

fn check(keys: &UrlKeys, query: &str, path: &str, now_s: u64) -> Result<(), UrlDenial> {
    let signature = UrlSignature::parse(query)?.expect("a signed query");
    keys.check(&signature, path.as_bytes(), CLIENT, now_s)
}

/// Promise: A signature for a file opens only that file, until the signature expires.
#[test]
fn a_signature_is_for_a_path_and_a_time() {
    let keys = keys(KEY);
    let query = keys.sign((b"cams/a.ts", false), 1000, None).query();
    assert_eq!(check(&keys, &query, "cams/a.ts", 999), Ok(()));
    assert_eq!(check(&keys, &query, "cams/a.ts", 1000), Err(UrlDenial::Expired));
    for path in ["cams/b.ts", "cams", "", "cams/a.ts/b", "Cams/a.ts"] {
        assert_eq!(check(&keys, &query, path, 999), Err(UrlDenial::Wrong), "{path}");
    }
    let later = query.replace("expires=1000", "expires=2000");
    assert_eq!(check(&keys, &later, "cams/a.ts", 999), Err(UrlDenial::Wrong));
    // Nobody learns by a guess that a URL would have expired.
    assert_eq!(check(&keys, &later, "cams/a.ts", 3000), Err(UrlDenial::Wrong));
}

/// Promise: A signature for a folder opens everything in the folder and its subfolders.
#[test]
fn a_signature_for_a_folder_covers_what_is_beneath_it() {
    let keys = keys(KEY);
    let folder = keys.sign((b"cams/1", true), 1000, None).query();
    for path in ["cams/1", "cams/1/a.ts", "cams/1/2/3/a.ts"] {
        assert_eq!(check(&keys, &folder, path, 0), Ok(()), "{path}");
    }
    for path in ["cams", "cams/2/a.ts", "cams/10", ""] {
        assert_eq!(check(&keys, &folder, path, 0), Err(UrlDenial::Wrong), "{path}");
    }
    let root = keys.sign((b"", true), 1000, None).query();
    for path in ["", "a", "a/b/c"] {
        assert_eq!(check(&keys, &root, path, 0), Ok(()), "{path}");
    }
}

#[test]
fn a_signature_may_be_for_one_client() {
    let keys = keys(KEY);
    let signed = |address: &str| keys.sign((b"a", false), 1000, Some(address.parse().unwrap())).query();
    assert!(signed("192.0.2.7").starts_with("expires=1000&address=192.0.2.7&signature="));
    assert_eq!(check(&keys, &signed("192.0.2.7"), "a", 0), Ok(()));
    assert_eq!(check(&keys, &signed("::ffff:192.0.2.7"), "a", 0), Ok(()));
    assert_eq!(check(&keys, &signed("192.0.2.8"), "a", 0), Err(UrlDenial::OtherAddress));
    let without = signed("192.0.2.8").replace("&address=192.0.2.8", "");
    assert_eq!(check(&keys, &without, "a", 0), Err(UrlDenial::Wrong));
    // Clients may encode the colons of IPv6.
    let signature = keys.sign((b"a", false), 9, Some("2001:db8::1".parse().unwrap()));
    let encoded = signature.query().replace(':', "%3A");
    assert_eq!(UrlSignature::parse(&encoded), Ok(Some(signature)));
}

/// Promise: Every key in the key file is valid and the first one signs, so keys can be replaced while signed
/// URLs are valid.
#[test]
fn keys_rotate() {
    let old = keys(KEY).sign((b"a", false), 1000, None).query();
    let both = keys(&format!("# new\n{OTHER}\n\n{KEY}\n"));
    assert_eq!((both.count(), check(&both, &old, "a", 0)), (2, Ok(())));
    let new = both.sign((b"a", false), 1000, None).query();
    assert_eq!(check(&keys(OTHER), &new, "a", 0), Ok(()));
    assert_eq!(check(&keys(OTHER), &old, "a", 0), Err(UrlDenial::Wrong));
    for (text, error) in [
        ("# none\n".to_owned(), UrlKeysError::Empty),
        (format!("{KEY}\nshort"), UrlKeysError::Length(2)),
        ("x".repeat(1025), UrlKeysError::Length(1)),
        (format!("{KEY}\n").repeat(9), UrlKeysError::TooMany),
    ] {
        assert_eq!(UrlKeys::parse(&text).err(), Some(error));
    }
}

#[test]
fn queries_are_read_or_refused() {
    let signature = keys(KEY).sign((b"a", false), 1000, None);
    let query = signature.query();
    let (expires, value) = query.split_once('&').expect("two parameters");
    for other in [
        query.clone(),
        format!("{value}&{expires}"),
        format!("demux=1&{query}&x&=&y=z"),
        format!("{query}="),
        format!("{query}%3D"),
    ] {
        assert_eq!(UrlSignature::parse(&other), Ok(Some(signature.clone())), "{other}");
    }
    for unsigned in ["", "a=b", "address=1.2.3.4", "token=signature", "expires"] {
        assert_eq!(UrlSignature::parse(unsigned), Ok(None), "{unsigned}");
    }
    for malformed in [
        expires.to_owned(),
        value.to_owned(),
        format!("{query}&{expires}"),
        format!("{query}&address=here"),
        format!("{query}A"),
        query.replace("1000", "+1000"),
        query.replace("1000", ""),
        query.replace("1000", "99999999999999999999"),
        query.replace("1000", "%ff"),
        format!("{query}&x={}", "y".repeat(MOST_QUERY_BYTES)),
    ] {
        assert_eq!(UrlSignature::parse(&malformed), Err(UrlDenial::Malformed), "{malformed}");
    }
}

/// Promise: `openssl` makes the same signatures as `wirepath sign`, by the command in the reference.
#[test]
fn openssl_signs_alike() {
    let script = r#"printf '%s?expires=%s' "$1" "$2" | openssl dgst -sha256 -hmac "$3" -binary | base64 | tr '+/' '-_' | tr -d '='"#;
    let arguments = ["-c", script, "sh", "/cams/über uns.ts", "1000", KEY];
    let output = Command::new("sh").args(arguments).output().expect("a shell");
    let signature = String::from_utf8(output.stdout).expect("Base64");
    assert!(!signature.trim().is_empty(), "openssl is missing: scripts/install.sh test installs it");
    let query = format!("expires=1000&signature={}", signature.trim());
    assert_eq!(keys(KEY).sign(("cams/über uns.ts".as_bytes(), false), 1000, None).query(), query);
}

#[test]
fn of_deep_paths_the_outer_folders_are_tried() {
    let keys = keys(KEY);
    let deep = vec!["a"; 1000].join("/");
    let signed = |folders| keys.sign((vec!["a"; folders].join("/").as_bytes(), true), 1, None).query();
    for (folders, admitted) in
        [(0, Ok(())), (1, Ok(())), (MOST_FOLDERS, Ok(())), (MOST_FOLDERS + 1, Err(UrlDenial::Wrong))]
    {
        assert_eq!(check(&keys, &signed(folders), &deep, 0), admitted, "{folders}");
    }
    let file = keys.sign((deep.as_bytes(), false), 1, None).query();
    assert_eq!(check(&keys, &file, &deep, 0), Ok(()));
}

proptest! {
    /// Promise: No query makes the reader of signed URLs panic, and each query that it accepts is written
    /// back and read again.
    #[test]
    fn any_query_is_read_or_refused(query in "[a-f=&%0-9:.]{0,60}|(expires|signature|address|x)=[^&]{0,50}(&(expires|signature)=.{0,50}){0,3}") {
        if let Ok(Some(signature)) = UrlSignature::parse(&query) {
            prop_assert_eq!(UrlSignature::parse(&signature.query()), Ok(Some(signature)));
        }
    }

    #[test]
    fn what_is_signed_is_admitted_beneath_it_only(
        names in proptest::collection::vec("[a-c é]{1,3}", 1..6), depth in 0_usize..6, expires_s: u64, v6: u128,
    ) {
        let (keys, path) = (keys(KEY), names.join("/"));
        let folder = names[..depth.min(names.len())].join("/");
        let client = IpAddr::V6(v6.into());
        let signed = keys.sign((folder.as_bytes(), true), expires_s, Some(client));
        prop_assert_eq!(UrlSignature::parse(&signed.query()), Ok(Some(signed.clone())));
        let check = |path: &str| {
            keys.check(&signed, path.as_bytes(), client, 0)
        };
        let admitted = if expires_s == 0 { Err(UrlDenial::Expired) } else { Ok(()) };
        prop_assert_eq!(check(&path), admitted);
        if !folder.is_empty() {
            prop_assert_eq!(check(&format!("x{path}")), Err(UrlDenial::Wrong));
        }
    }
}

use super::*;

fn kind(text: &str) -> Kind {
    text.parse::<Address>().unwrap().kind
}

#[test]
fn addresses_are_parsed() {
    let tcp = |host: &str, port, listen| Kind::Tcp { host: host.to_owned(), port, listen };
    assert_eq!(kind("-"), Kind::Standard);
    assert_eq!(kind("tcp://example.org:80"), tcp("example.org", 80, false));
    assert_eq!(kind("tcp://[::1]:80"), tcp("::1", 80, false));
    assert_eq!(kind("tcp://:5000?listen"), tcp("", 5000, true));
    assert_eq!(kind("unix:/run/a?listen"), Kind::Unix { path: "/run/a".into(), listen: true });
    assert_eq!(kind("file:a:b"), Kind::File { path: "a:b".into(), existing: Existing::Refuse });
    assert_eq!(kind("file:a?append"), Kind::File { path: "a".into(), existing: Existing::Append });
    let udp = Udp { host: "239.1.1.1".to_owned(), port: 1234, ..Udp::default() };
    assert_eq!(kind("udp://@239.1.1.1:1234"), Kind::Udp(udp.clone()));
    let with = Udp { interface: Some("eth0".to_owned()), ttl: Some(4), packet_bytes: Some(1316), ..udp };
    assert_eq!(kind("udp://239.1.1.1:1234?iface=eth0&ttl=4&packet=1316"), Kind::Udp(with));
    assert_eq!(kind("udp://@:9000"), Kind::Udp(Udp { port: 9000, ..Udp::default() }));
    assert_eq!(
        kind("udp://@[ff02::1]:9"),
        Kind::Udp(Udp { host: "ff02::1".to_owned(), port: 9, ..Udp::default() })
    );
    assert_eq!("tcp://a:1".parse::<Address>().unwrap().to_string(), "tcp://a:1");
}

#[test]
fn relative_paths_are_in_a_folder_and_nothing_else_is() {
    let within = |text: &str| text.parse::<Address>().unwrap().within(Path::new("/etc/wirepath")).to_string();
    assert_eq!(within("file:a.ts?append"), "file:/etc/wirepath/a.ts?append");
    assert_eq!(within("unix:/run/a?listen"), "unix:/run/a?listen");
    assert_eq!(within("udp://@:9000"), "udp://@:9000");
    assert_eq!(within("-"), "-");
    let moved = "unix:a".parse::<Address>().unwrap().within(Path::new("/run"));
    assert_eq!(moved.kind, Kind::Unix { path: "/run/a".into(), listen: false });
}

/// Promise: `?iface` and `?ttl` of an address that is not a group are refused, with the remedy.
/// Promise: Errors name wrong addresses and words and list the valid ones; an existing file is not
/// overwritten.
#[test]
fn an_invalid_address_is_refused_with_what_is_expected() {
    for (text, why) in [
        ("video.ts", "invalid address; for a file write file:video.ts; expected tcp://"),
        ("/dev/stdout", "invalid address; for a file write file:/dev/stdout; expected"),
        ("a/b:c", "invalid address; for a file write file:a/b:c; expected"),
        ("127.0.0.1:80", "invalid address; for TCP write tcp://127.0.0.1:80; expected"),
        ("[::1]:80", "for TCP write tcp://[::1]:80; expected"),
        (":80", "to listen on this port write tcp://:80?listen; expected"),
        ("http://a:1", "unknown scheme http; expected tcp://"),
        ("tcp://a", "missing port"),
        ("tcp:a:1", "missing // after the colon"),
        ("tcp://:80", "add ?listen"),
        ("tcp://a:0", "invalid port 0"),
        ("tcp://a:99999", "invalid port 99999"),
        ("tcp://::1:80", "an IPv6 address needs brackets"),
        ("tcp://a:1?listen=yes", "listen takes no value"),
        ("tcp://a:1?lisen", "unknown option lisen: expected listen"),
        ("tcp://:1?lissten", "unknown option lissten: expected listen"),
        ("tcp://80", "missing colon: expected HOST:80 or :80"),
        ("udp://a:1?ttl=300", "invalid ttl 300: expected 1 to 255"),
        ("udp://a:1?iface", "iface needs a value"),
        ("udp://10.0.0.1:1?iface=eth0", "iface is for multicast groups: 10.0.0.1 is not one; remove iface"),
        ("udp://@[fe80::1]:1?ttl=4", "ttl is for multicast groups: fe80::1 is not one; remove ttl"),
        ("udp://@:9?iface=eth0", "iface is for multicast groups: every address is not one"),
        ("unix:", "missing path"),
        ("file:x?append&overwrite", "exclude each other"),
    ] {
        let error = text.parse::<Address>().unwrap_err().to_string();
        assert!(error.starts_with(text) && error.contains(why), "{error}");
    }
}

/// Promise: Standard streams, output files and listening addresses may occur only once; wrong parameters are
/// refused.
#[test]
fn options_of_outputs_are_refused_for_inputs() {
    for (text, what) in [
        ("udp://@239.1.1.1:1?ttl=4", "ttl"),
        ("udp://@:1?packet=1316", "packet"),
        ("file:a?append", "append"),
        ("file:a?overwrite", "overwrite"),
    ] {
        let why = Address::to_read(text).unwrap_err().why().to_owned();
        assert!(why.starts_with(what) && why.ends_with("remove it from an input"), "{why}");
    }
    for text in ["udp://@239.1.1.1:1?iface=eth0", "file:a", "-", "tcp://:1?listen"] {
        assert_eq!(Address::to_read(text), text.parse());
    }
}

/// Promise: Errors name wrong addresses and words and list the valid ones; an existing file is not
/// overwritten.
#[test]
fn an_address_to_receive_from_is_refused_for_outputs() {
    for (text, why) in [
        ("udp://@10.0.0.1:1", "write udp://HOST:PORT"),
        ("udp://@[::1]:1", "write udp://HOST:PORT"),
        ("udp://:1", "missing host"),
    ] {
        assert!(text.parse::<Address>().is_ok(), "{text}");
        let error = Address::to_write(text).unwrap_err();
        assert!(error.why().contains(why) && !error.why().contains(text), "{error}");
    }
    for text in ["udp://10.0.0.1:1", "tcp://:1?listen", "-", "file:@", "unix:@"] {
        assert_eq!(Address::to_write(text), text.parse());
    }
}

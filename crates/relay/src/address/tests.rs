use super::*;

fn kind(text: &str) -> Kind {
    text.parse::<Address>().unwrap().kind
}

#[test]
fn addresses_as_people_write_them() {
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

/// Promise: `?iface` and `?ttl` of an address that is no group are refused, with what to do.
/// Promise: Wrong addresses and words are named, with those that exist; an existing file is not overwritten.
#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    for (text, why) in [
        ("video.ts", "this is no address; a file is file:video.ts; there are tcp://"),
        ("/dev/stdout", "this is no address; a file is file:/dev/stdout; there are"),
        ("a/b:c", "this is no address; a file is file:a/b:c; there are"),
        ("127.0.0.1:80", "this is no address; over TCP it is tcp://127.0.0.1:80; there are"),
        ("[::1]:80", "over TCP it is tcp://[::1]:80; there are"),
        (":80", "to wait for a connection at this port it is tcp://:80?listen; there are"),
        ("http://a:1", "http is no kind of address; there are tcp://"),
        ("tcp://a", "a port is missing"),
        ("tcp:a:1", "after the colon come two slashes"),
        ("tcp://:80", "add ?listen"),
        ("tcp://a:0", "0 is no port"),
        ("tcp://a:99999", "99999 is no port"),
        ("tcp://::1:80", "an IPv6 address needs brackets"),
        ("tcp://a:1?listen=yes", "listen takes no value"),
        ("tcp://a:1?lisen", "lisen is no option here; there are listen"),
        ("tcp://:1?lissten", "lissten is no option here; there are listen"),
        ("tcp://80", "a host or a colon is missing, as in HOST:80 or :80"),
        ("udp://a:1?ttl=300", "ttl is 300, and must be a number from 1 to 255"),
        ("udp://a:1?iface", "iface needs a value"),
        (
            "udp://10.0.0.1:1?iface=eth0",
            "iface is for groups (multicast), and 10.0.0.1 is none; leave iface out",
        ),
        ("udp://@[fe80::1]:1?ttl=4", "ttl is for groups (multicast), and fe80::1 is none; leave ttl out"),
        (
            "udp://@:9?iface=eth0",
            "iface is for groups (multicast), and everything that comes to the port is none",
        ),
        ("unix:", "a path is missing"),
        ("file:x?append&overwrite", "exclude each other"),
    ] {
        let error = text.parse::<Address>().unwrap_err().to_string();
        assert!(error.starts_with(text) && error.contains(why), "{error}");
    }
}

/// Promise: Standard streams, written files and awaited addresses are used once; wrong parameters are
/// refused.
#[test]
fn what_only_outputs_have_is_refused_of_an_input() {
    for (text, what) in [
        ("udp://@239.1.1.1:1?ttl=4", "ttl"),
        ("udp://@:1?packet=1316", "packet"),
        ("file:a?append", "append"),
        ("file:a?overwrite", "overwrite"),
    ] {
        let why = Address::to_read(text).unwrap_err().why().to_owned();
        assert!(why.starts_with(what) && why.ends_with("leave it out of an input"), "{why}");
    }
    for text in ["udp://@239.1.1.1:1?iface=eth0", "file:a", "-", "tcp://:1?listen"] {
        assert_eq!(Address::to_read(text), text.parse());
    }
}

/// Promise: Wrong addresses and words are named, with those that exist; an existing file is not overwritten.
#[test]
fn nobody_sends_to_an_address_to_receive_from() {
    for (text, why) in [
        ("udp://@10.0.0.1:1", "it is udp://HOST:PORT"),
        ("udp://@[::1]:1", "it is udp://HOST:PORT"),
        ("udp://:1", "a host is missing"),
    ] {
        assert!(text.parse::<Address>().is_ok(), "{text}");
        let error = Address::to_write(text).unwrap_err();
        assert!(error.why().contains(why) && !error.why().contains(text), "{error}");
    }
    for text in ["udp://10.0.0.1:1", "tcp://:1?listen", "-", "file:@", "unix:@"] {
        assert_eq!(Address::to_write(text), text.parse());
    }
}

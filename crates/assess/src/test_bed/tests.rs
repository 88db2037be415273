use super::*;

/// Runs `act` in a namespace, for parts of a test bed that need no receiver process; does nothing without
/// privileges.
pub(super) fn in_namespace(act: impl FnOnce(&Namespace) -> Result<(), Error> + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| match Namespace::unshare().unwrap() {
            Some(here) => act(&here).unwrap(),
            None => println!("skipped: network namespaces need root"),
        });
        thread.join().unwrap();
    });
}

/// Promise: A run that lost data is an error, not a figure.
#[test]
fn a_device_that_drops_counts_what_it_drops() {
    in_namespace(|_| {
        let device = Device::that_drops(1500, true)?;
        let before = device.counted()?;
        let socket = UdpSocket::bind("0.0.0.0:0").doing("bind")?;
        socket.connect(DROPPED).doing("connect")?;
        for _ in 0..3 {
            socket.send(&[7; 1000]).doing("send")?;
        }
        let counted = device.counted()?.since(before);
        assert_eq!(counted, Counted { bytes: 3 * (14 + 20 + 8 + 1000), packets: 3 });
        Ok(())
    });
}

#[test]
fn offloads_of_a_device_can_be_turned_off() {
    in_namespace(|_| {
        let device = Device::that_drops(1500, false)?;
        let address = "10.80.0.1".parse().expect("an address");
        let name = wirepath_sys::device::with_address(address).doing("asking")?.expect("the device has it");
        let socket = UdpSocket::bind("0.0.0.0:0").doing("bind")?;
        let offloads = || {
            use std::os::fd::AsFd;
            wirepath_sys::device::offloads_checksums(socket.as_fd(), &name).doing("asking")
        };
        assert!(!offloads()?);
        device.set_checksum_offload(true)?;
        assert!(offloads()?);
        Ok(())
    });
}

#[test]
fn a_thread_comes_home_from_another_namespace() {
    in_namespace(|here| {
        let inode = || std::fs::read_link("/proc/thread-self/ns/net").doing("readlink");
        let home = inode()?;
        let other = here.create()?;
        assert_eq!(inode()?, home);
        assert_ne!(other.run_in(here, inode)?, home);
        let failed = other.run_in(here, || Err::<(), _>(Error::Stopped));
        assert!(matches!(failed, Err(Error::Stopped)) && inode()? == home);
        Ok(())
    });
}

#[test]
fn a_host_that_is_not_there_is_named() {
    let error = with_test_bed(&Sink::Host("no-such-host.invalid:9000".to_owned()), 1500, None, |_| Ok(()))
        .unwrap_err();
    assert!(matches!(&error, Error::Input(text) if text.contains("no-such-host.invalid")), "{error}");
}

#[test]
fn a_processor_that_is_not_there_is_refused() {
    let error = with_test_bed(&Sink::Loopback, 1500, Some(100_000), |_| Ok(())).unwrap_err();
    assert!(matches!(&error, Error::Input(text) if text.contains("100000")), "{error}");
}

/// Promise: With privileges, verification runs over a link on which checksums are verified.
#[test]
fn a_pair_aside_carries_what_is_verified_and_leaves_the_thread_where_it_was() {
    in_namespace(|here| {
        let namespace = || std::fs::read_link("/proc/thread-self/ns/net").doing("reading where we are");
        let (before, pair) = (namespace()?, Pair::aside(1500)?);
        let (sender, receiver) = pair.sockets(
            |address| UdpSocket::bind((address, 0)).doing("bind"),
            |receiver: &UdpSocket| {
                let sender = UdpSocket::bind("0.0.0.0:0").doing("bind")?;
                sender.connect(receiver.local_addr().doing("asking")?).doing("connect")?;
                Ok(sender)
            },
        )?;
        assert_eq!(namespace()?, before);
        for by_device in [false, true] {
            pair.compute_checksums(by_device)?;
            sender.send(b"over the wire").doing("send")?;
            let mut room = [0; 100];
            assert_eq!(receiver.recv(&mut room).doing("receive")?, 13);
        }
        // The thread's namespace has none of the pair's devices.
        assert!(here.run_in(here, || Device::called(c"near").counted()).is_err());
        Ok(())
    });
}

//! A relay that receives groups on a device of its own choice.
//!
//! ```text
//!   client 10.77.0.2 fd77::2 veth --------- veth 10.77.0.1 fd77::1  server: the relay,
//!   other  10.78.0.2 fd78::2 veth --------- side 10.78.0.1 fd78::1  and who has joined beside it
//! ```

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use wirepath_tests::namespace::{Link, Namespace, join};
use wirepath_tests::process::Process;
use wirepath_tests::{Deadline, trials};

use super::{GROUP, GROUP_IPV6, GROUP_OF_LINK, PATIENCE, PORT, host, joined, relay, sending, test_bed};

pub(super) fn trials() -> Vec<Trial> {
    trials![
        a_group_comes_by_the_device_that_is_named_and_by_no_other,
        a_group_of_ipv6_comes_by_the_device_that_is_named_and_by_no_other,
        a_group_of_a_link_comes_by_the_device_that_is_named_and_by_no_other,
        a_group_on_two_devices_comes_once_by_each,
        a_group_of_ipv6_on_two_devices_comes_once_by_each,
    ]
}

/// Datagrams that are sent by each link.
const EACH: u8 = 20;

/// A relay that receives a group on some devices, and both links' far ends.
struct Devices {
    link: Link,
    _other: Namespace,
    relay: Process,
    receiver: UdpSocket,
    /// Sends to `veth` of the relay's namespace.
    by_veth: UdpSocket,
    /// Sends to `side` of the relay's namespace.
    by_side: UdpSocket,
}

impl Devices {
    fn of(group: IpAddr, devices: &[&str]) -> Result<Devices> {
        let link = test_bed(group)?;
        let other = Namespace::new()?;
        let [far, near] = [2, 1].map(|host| Ipv4Addr::new(10, 78, 0, host));
        join(&other, "veth", far, &link.server, "side", near)?;
        if group.is_ipv6() {
            other.ip("address add fd78::2/64 dev veth nodad")?;
            link.server.ip("address add fd78::1/64 dev side nodad")?;
        }
        let receiver = link.server.enter(|| Ok(UdpSocket::bind("127.0.0.1:0")?))?;
        let inputs = devices.iter().map(|device| format!("--in=udp://{}:{PORT}?iface={device}", host(group)));
        let mut arguments: Vec<String> = inputs.collect();
        arguments.push(format!("--out=udp://{}", receiver.local_addr()?));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let relay = relay(&link.server, &arguments)?;
        let (by_veth, by_side) = (sending(&link.client, group)?, sending(&other, group)?);
        let joining = Devices { link, _other: other, relay, receiver, by_veth, by_side };
        for device in devices {
            joining.wait_until_joined(device)?;
        }
        Ok(joining)
    }

    /// Until the relay has joined the group on a device, nobody hears.
    fn wait_until_joined(&self, device: &str) -> Result<()> {
        let sender = if device == "side" { &self.by_side } else { &self.by_veth };
        let hello = format!("hello by {device}");
        self.receiver.set_read_timeout(Some(Duration::from_millis(50)))?;
        Deadline::seconds(20.0).wait_for("the relay to join the group", || {
            sender.send(hello.as_bytes())?;
            let mut came = [0; 20];
            let length = self.receiver.recv(&mut came).unwrap_or(0);
            Ok((came[..length] == *hello.as_bytes()).then_some(()))
        })?;
        Ok(self.receiver.set_read_timeout(Some(PATIENCE))?)
    }

    /// The next datagram, but for those that only tried whether the relay is there.
    fn next(&self) -> Result<String> {
        let mut buffer = [0; 100];
        loop {
            let length = self.receiver.recv(&mut buffer).context("nothing more came")?;
            let came = String::from_utf8_lossy(&buffer[..length]);
            if !came.starts_with("hello") {
                return Ok(came.into_owned());
            }
        }
    }

    /// Ends the relay; answers what came of it that nobody has asked for.
    fn end(&mut self) -> Result<Vec<String>> {
        self.relay.signal(Signal::INT)?;
        let status = self.relay.wait(Deadline::seconds(20.0))?;
        ensure!(status.code() == Some(130), "{status}: {}", self.relay.log());
        // The relay is gone: what it sent over loopback is here, and this is the last.
        let port = self.receiver.local_addr()?;
        self.receiver.send_to(b"last", port)?;
        let mut came = Vec::new();
        loop {
            match self.next()? {
                last if last == "last" => return Ok(came),
                more => came.push(more),
            }
        }
    }
}

/// Another program has joined the group on another device, and so the machine takes what comes there.
fn kept_to_one(group: IpAddr) -> Result<()> {
    let mut devices = Devices::of(group, &["veth"])?;
    let beside = joined(&devices.link.server, "side", group)?;
    for number in 0..EACH {
        devices.by_side.send(format!("by the side {number}").as_bytes())?;
        // One call of the kernel gives a datagram to all who are to have it: what the relay would get, it has
        // after this.
        let length = beside.recv(&mut [0; 100]).context("who joined beside the relay")?;
        ensure!(length > 0);
        devices.by_veth.send(format!("by the link {number}").as_bytes())?;
        let came = devices.next()?;
        ensure!(came == format!("by the link {number}"), "the relay received what came {came}");
    }
    let more = devices.end()?;
    ensure!(more.is_empty(), "the relay sent more than was sent to it: {more:?}");
    Ok(())
}

/// Promise: A group is received only from the given device.
fn a_group_comes_by_the_device_that_is_named_and_by_no_other() -> Result<()> {
    kept_to_one(GROUP.into())
}

/// Promise: A group is received only from the given device.
fn a_group_of_ipv6_comes_by_the_device_that_is_named_and_by_no_other() -> Result<()> {
    kept_to_one(GROUP_IPV6.into())
}

/// Promise: A group is received only from the given device.
fn a_group_of_a_link_comes_by_the_device_that_is_named_and_by_no_other() -> Result<()> {
    kept_to_one(GROUP_OF_LINK.into())
}

/// Two inputs of one group, each on a device of its own.
fn once_by_each(group: IpAddr) -> Result<()> {
    let mut devices = Devices::of(group, &["veth", "side"])?;
    let sent: Vec<[String; 2]> =
        (0..EACH).map(|number| ["by the link", "by the side"].map(|by| format!("{by} {number}"))).collect();
    for [by_veth, by_side] in &sent {
        devices.by_veth.send(by_veth.as_bytes())?;
        devices.by_side.send(by_side.as_bytes())?;
    }
    let mut came = sent.iter().flatten().map(|_| devices.next()).collect::<Result<Vec<String>>>()?;
    came.extend(devices.end()?);
    let mut expected: Vec<String> = sent.into_iter().flatten().collect();
    came.sort();
    expected.sort();
    ensure!(came == expected, "{} datagrams came of {}: {came:?}", came.len(), expected.len());
    Ok(())
}

/// Promise: A group is received only from the given device.
fn a_group_on_two_devices_comes_once_by_each() -> Result<()> {
    once_by_each(GROUP.into())
}

/// Promise: A group is received only from the given device.
fn a_group_of_ipv6_on_two_devices_comes_once_by_each() -> Result<()> {
    once_by_each(GROUP_IPV6.into())
}

//! The test bed's own veth pair, which verified packets go over with any sink.

use std::net::Ipv4Addr;

use super::device::Device;
use super::namespace::{Namespace, ip};
use super::{FAR, NEAR};
use crate::error::Error;

/// Name of the near device.
pub(super) const NEAR_DEVICE: &str = "near";

/// Two connected devices, each in its own namespace.
#[derive(Debug)]
pub(super) struct Pair {
    near: Namespace,
    far: Namespace,
    device: Device,
}

impl Pair {
    /// Largest MTU of a veth device (ETH_MAX_MTU).
    pub(super) const MOST_MTU: u32 = 65_535;

    /// Pair between the namespace `here`, where the calling thread is, and a new namespace.
    pub(super) fn from(here: Namespace, mtu: u32) -> Result<Pair, Error> {
        let far = here.create()?;
        Pair::between(here, far, mtu)
    }

    /// Pair between the namespace `here`, where the calling thread is, and another namespace.
    pub(super) fn between(here: Namespace, far: Namespace, mtu: u32) -> Result<Pair, Error> {
        ip(&format!("link add near mtu {mtu} type veth peer name far mtu {mtu} netns {}", far.path()))?;
        ip(&format!("address add {NEAR}/24 dev near"))?;
        ip("link set near up")?;
        far.run_in(&here, || {
            ip("link set lo up")?;
            ip(&format!("address add {FAR}/24 dev far"))?;
            ip("link set far up")
        })?;
        Ok(Pair { near: here, far, device: Device::called(c"near") })
    }

    /// Pair between two new namespaces; the calling thread stays in its namespace.
    pub(super) fn aside(mtu: u32) -> Result<Pair, Error> {
        let home = Namespace::here()?;
        let Some(here) = Namespace::unshare()? else {
            return Err(Error::Unable("it takes a network namespace, and so root".to_owned()));
        };
        let pair = Pair::from(here, mtu);
        home.enter()?;
        pair
    }

    /// Receiving socket in the far namespace, and a socket that sends to it in the near namespace.
    pub(super) fn sockets<S, R>(
        &self,
        receiver: impl FnOnce(Ipv4Addr) -> Result<R, Error>,
        sender: impl FnOnce(&R) -> Result<S, Error>,
    ) -> Result<(S, R), Error> {
        let receiver = self.at_far(|| receiver(FAR))?;
        let sender = self.near.run_in(&Namespace::here()?, || sender(&receiver))?;
        Ok((sender, receiver))
    }

    /// Calls `act` in the far namespace.
    pub(super) fn at_far<T>(&self, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.far.run_in(&Namespace::here()?, act)
    }

    /// Calls `act` with the near device in its namespace.
    pub(super) fn at_near<T>(&self, act: impl FnOnce(&Device) -> Result<T, Error>) -> Result<T, Error> {
        self.near.run_in(&Namespace::here()?, || act(&self.device))
    }

    /// Selects whether the device or the kernel computes checksums.
    pub(super) fn compute_checksums(&self, by_device: bool) -> Result<(), Error> {
        self.near.run_in(&Namespace::here()?, || self.device.set_checksum_offload(by_device))
    }
}

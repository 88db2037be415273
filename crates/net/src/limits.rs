//! Limits on connections or sessions: in total, and per client address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

/// Limits on connections or sessions, and their current numbers.
#[derive(Debug)]
pub struct ClientLimits {
    most: usize,
    most_per_address: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// Permit for one connection or session, released on drop.
#[derive(Debug)]
pub struct Permit {
    limits: Arc<ClientLimits>,
    address: IpAddr,
}

/// Limit that one more connection or session would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// Total limit.
    Total,
    /// Limit per address.
    Address,
    /// Limit of descriptors.
    Descriptors,
}

impl ClientLimits {
    /// Limits in total, and per address.
    pub fn new(most: usize, most_per_address: usize) -> Arc<Self> {
        Arc::new(Self { most, most_per_address, open: Mutex::default() })
    }

    /// Number of open connections or sessions.
    pub fn open(&self) -> usize {
        self.open.lock().total
    }

    /// Admits one more connection or session from this address.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Result<Permit, Exceeded> {
        let address = client(address);
        let mut open = self.open.lock();
        let here = open.by_address.get(&address).copied().unwrap_or(0);
        if open.total >= self.most {
            return Err(Exceeded::Total);
        }
        if here >= self.most_per_address {
            return Err(Exceeded::Address);
        }
        open.total += 1;
        open.by_address.insert(address, here + 1);
        Ok(Permit { limits: Arc::clone(self), address })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.limits.open.lock();
        open.total -= 1;
        if let Some(here) = open.by_address.get_mut(&self.address) {
            *here -= 1;
            if *here == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

/// Client that an address stands for: an IPv4 address, also in its IPv6 form; for IPv6 the first 64 bits,
/// because a client can use all addresses of its network.
pub fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_in_all_and_by_address() {
        let limits = ClientLimits::new(3, 2);
        let admit = |address: &str| limits.admit(address.parse().unwrap());
        let first = admit("10.0.0.1").unwrap();
        let second = admit("::ffff:10.0.0.1").unwrap();
        assert_eq!(admit("10.0.0.1").err(), Some(Exceeded::Address));
        let third = admit("2001:db8::1").unwrap();
        assert_eq!(admit("10.0.0.2").err(), Some(Exceeded::Total));
        drop(first);
        let fourth = admit("2001:db8::2").unwrap();
        drop(second);
        assert_eq!(admit("2001:db8::3").err(), Some(Exceeded::Address), "one network has two");
        drop((third, fourth));
        assert!(limits.open() == 0 && limits.open.lock().by_address.is_empty());
    }
}

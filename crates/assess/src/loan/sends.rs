//! Sends of one size, copied or lent: which socket, which bytes, and the loop that is measured.

use std::time::Instant;

use wirepath_datapath::{BlockPath, LoanPolicy, LoanSwitch, Medium, Scratch};
use wirepath_sys::usage::Usage;

use crate::error::{Doing, Error};
use crate::headers::UDP_OVER_IPV4;
use crate::outlet::{self, Outlet, Watch};
use crate::result::{Run, Transport};
use crate::send::{Sending, Sent};
use crate::stage::Stage;
use crate::walk::{Stretch, Walk};
use crate::way::{Cell, Way};

/// Most bytes of a UDP datagram (IPv4), and so of a send.
pub(super) const MOST_OF_DATAGRAM: u32 = 65_507;

/// How the payload comes into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// `send` copies it.
    Copied,
    /// `send` with MSG_ZEROCOPY lends its pages.
    Lent,
}

/// Sends of one size over one transport, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sends {
    pub(super) how: How,
    pub(super) transport: Transport,
    /// Bytes of a send.
    pub(super) size: u32,
    /// Bytes of a UDP datagram that fills the MTU.
    pub(super) segment: u16,
}

/// One run, and what was lent in it.
pub(super) struct Made {
    pub(super) run: Run,
    /// Sends.
    pub(super) sends: u64,
    /// Sends that were to lend and were copied, by the path because nothing more could be lent, or by the kernel later.
    pub(super) copied: u64,
}

impl Sends {
    /// The size of datagrams that fill this MTU.
    pub(super) fn segment(mtu: u32) -> u16 {
        (mtu - UDP_OVER_IPV4).min(MOST_OF_DATAGRAM) as u16
    }

    /// The socket's side of it. Both ways have UDP_SEGMENT set, so that the same datagrams leave; `loan` that is forced off is
    /// `mmap_send` on such a socket.
    pub(super) fn cell(&self) -> Cell {
        let path = if self.how == How::Copied { BlockPath::Loan } else { BlockPath::MmapZerocopy };
        Cell { way: Way::Block(path), transport: self.transport, size: Some(self.segment) }
    }

    /// An outlet of this cell that copies if that is how.
    pub(super) fn adjusted(&self, outlet: Outlet) -> Outlet {
        let never = LoanPolicy { threshold_bytes: None, forced: Some(false) };
        match outlet {
            Outlet::Blocks(sink) if self.how == How::Copied => {
                Outlet::Blocks(sink.with_switch(LoanSwitch::new(never)))
            }
            other => other,
        }
    }

    /// Sends of so many bytes in all of a file of this length, one after the other.
    pub(super) fn stretches(&self, file: u64, volume: u64) -> impl Iterator<Item = Stretch> {
        let (segment, transport) = (u64::from(self.segment), self.transport);
        Walk::new(file, self.size.into(), volume).stretches(1).map(move |send| match transport {
            Transport::Udp => Stretch { packets: send.bytes.div_ceil(segment), ..send },
            Transport::Tcp => send,
        })
    }

    /// For people.
    pub(super) fn label(&self) -> String {
        let how = if self.how == How::Copied { "copied" } else { "lent" };
        let transport = if self.transport == Transport::Udp { "UDP" } else { "TCP" };
        format!("{} bytes {how}, {transport}", self.size)
    }

    /// One run of about so many bytes. With the time goes what taking loans back costs.
    pub(super) fn run(
        &self,
        volume: u64,
        file: u64,
        medium: &Medium,
        stage: &Stage,
        scratch: &mut Scratch,
    ) -> Result<Made, Error> {
        let cell = self.cell();
        let (outlet, mut watch) = outlet::open(&cell, stage)?;
        let outlet = self.adjusted(outlet);
        let usage = || Usage::of_process().doing("asking for the processor time");
        let mut sending = Sending::new(&cell, medium, 0, &outlet, scratch, 0);
        let (before, start) = (usage()?, Instant::now());
        let (sent, sends) = self.all(&mut sending, volume, file, &mut watch)?;
        outlet.finish()?;
        let (wall, used) = (start.elapsed(), usage()?.since(before));
        watch.settle(&cell, &sent, stage.mtu)?;
        let Outlet::Blocks(sink) = &outlet else { unreachable!("blocks go to an outlet for blocks") };
        let copied = match self.how {
            How::Copied => 0,
            How::Lent => sink.loans().copies + sink.loans().copied_by_kernel,
        };
        let run = Run {
            user_s: used.user.as_secs_f64(),
            system_s: used.system.as_secs_f64(),
            wall_s: wall.as_secs_f64(),
            bytes: sent.bytes,
            packets: sent.packets,
            errors: sent.waits,
            copied: (self.how == How::Lent).then_some(copied),
        };
        Ok(Made { run, sends, copied })
    }

    fn all(
        &self,
        sending: &mut Sending<'_>,
        volume: u64,
        file: u64,
        watch: &mut Watch,
    ) -> Result<(Sent, u64), Error> {
        let (mut sent, mut sends) = (Sent::default(), 0);
        for stretch in self.stretches(file, volume) {
            sending.stretch(stretch, &mut sent)?;
            sends += 1;
            watch.pace(sent.transport_bytes)?;
        }
        Ok((sent, sends))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sends(transport: Transport, size: u32, mtu: u32) -> Vec<(u64, u64)> {
        let sends = Sends { how: How::Lent, transport, size, segment: Sends::segment(mtu) };
        sends.stretches(10_000, 10_000).map(|send| (send.bytes, send.packets)).collect()
    }

    #[test]
    fn a_send_is_a_train_over_udp_and_one_block_over_tcp() {
        assert_eq!(sends(Transport::Udp, 8192, 1500), [(8192, 6), (1808, 2)]);
        assert_eq!(sends(Transport::Udp, 8192, 9000), [(8192, 1), (1808, 1)]);
        assert_eq!(sends(Transport::Tcp, 8192, 1500), [(8192, 1), (1808, 1)]);
    }

    #[test]
    fn no_datagram_is_larger_than_one_can_be() {
        assert_eq!([1500, 9000, 65_536].map(Sends::segment), [1472, 8972, 65_507]);
    }
}

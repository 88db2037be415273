//! Streams whose handler runs in the kernel. Mirrors of UDP datagrams with a `bpf` handler run in the kernel
//! entirely; for other streams from UDP, the kernel drops records before user space receives them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wirepath_bpf::{HandlerObject, InKernel, Mirror, Place, Receiver, Select};
use wirepath_datapath::{DeviceName, devices_of, driver_of};
use wirepath_streams::{Handler, Object, RunningStream};

use super::spec::handler::{bpf_handler, read_object};
use super::spec::{HandlerSpec, SpecError};

/// Time after which the kernel takes over a stream that is never idle. Records may then overtake others.
const LONGEST_HAND_OVER: Duration = Duration::from_secs(1);

/// Name of the driver of TUN and TAP devices.
const TUN: &str = "tun";

/// Place where the `bpf` handler of a stream runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerPlace {
    /// The kernel, which mirrors accepted records. User space processes records that the kernel leaves to it.
    Kernel,
    /// User space, for this reason. The kernel drops records early that the handler would drop.
    KernelDrops(String),
    /// Only user space, for this reason.
    UserSpace(String),
}

/// Reasons in a stream's configuration, apart from its addresses, why the kernel cannot run its handler.
pub(super) struct Obstacles {
    /// Reason why the kernel cannot run the handler at all.
    pub(super) to_all: Option<&'static str>,
    /// Reason why the kernel cannot mirror the stream.
    pub(super) to_mirrors: Option<&'static str>,
}

/// `bpf` handler of a stream that may run in the kernel.
pub struct KernelHandler {
    object: HandlerObject,
    /// State shared with the handler of the stream.
    shared: Arc<Place>,
    place: HandlerPlace,
    /// Address of the input, or the reason why the kernel cannot run the handler.
    input: Result<SocketAddrV4, String>,
    /// Time since which records have been left to user space.
    left_since: Arc<Mutex<Option<Instant>>>,
}

impl KernelHandler {
    /// The first `bpf` handler of a stream, if there is one.
    pub(super) fn of(handlers: &[HandlerSpec]) -> Result<Option<KernelHandler>, SpecError> {
        let Some(file) = handlers.iter().find_map(HandlerSpec::object_file) else { return Ok(None) };
        let object = read_object(file)?;
        let why = "it was not placed".to_owned();
        let (place, input) = (HandlerPlace::UserSpace(why.clone()), Err(why));
        Ok(Some(KernelHandler { object, shared: Arc::default(), place, input, left_since: Arc::default() }))
    }

    /// The same handler as a handler of the stream, which reports the counts of kernel and user space.
    pub(super) fn handler(&self) -> Handler {
        bpf_handler(&self.object, Arc::clone(&self.shared))
    }

    /// Makes the kernel run the handler for a stream with these objects, as far as the kernel can and the
    /// obstacles allow.
    pub(super) fn place(
        &mut self,
        obstacles: &Obstacles,
        inputs: &[Option<Object>],
        outputs: &[Option<Object>],
    ) {
        self.input = obstacles.to_all.map_or_else(|| input_address(inputs), Err).map_err(str::to_owned);
        let input = self.input.clone();
        match input.and_then(|input| self.mirror(obstacles.to_mirrors, input, outputs)) {
            Ok(mirror) => {
                self.shared.enter_kernel(InKernel::Mirror(mirror));
                self.place = HandlerPlace::Kernel;
            }
            Err(why) => {
                // Only mirrors need single datagrams. Receiving joined datagrams is cheaper.
                inputs.iter().flatten().for_each(|input| drop(input.take_joined_datagrams(true)));
                self.drop_early(why);
            }
        }
    }

    /// Lets the kernel at most drop records early, for this reason. User space does the rest.
    pub(super) fn drop_early(&mut self, why: String) {
        self.shared.leave_kernel();
        self.place = match self.input.clone().and_then(|input| self.select(input)) {
            Ok(select) => {
                self.shared.enter_kernel(InKernel::Select(select));
                HandlerPlace::KernelDrops(why)
            }
            Err(other) if other == why => HandlerPlace::UserSpace(why),
            Err(other) => {
                HandlerPlace::UserSpace(format!("{why}; the kernel drops no records before: {other}"))
            }
        };
    }

    fn mirror(
        &self,
        obstacle: Option<&'static str>,
        input: SocketAddrV4,
        outputs: &[Option<Object>],
    ) -> Result<Mirror, String> {
        let receivers = obstacle.map_or_else(|| receivers(input, outputs), Err).map_err(str::to_owned)?;
        Mirror::attach(&self.object, input, &receivers).map_err(|error| error.to_string())
    }

    fn select(&self, input: SocketAddrV4) -> Result<Select, String> {
        let devices = devices_of((*input.ip()).into()).map_err(cannot_ask)?;
        if let Some(device) = tun_among(&devices).map_err(cannot_ask)? {
            // The tun driver passes whole trains from a virtual machine to XDP as one frame, like generic
            // XDP.
            return Err(format!("{device} is a TUN or TAP device, of which XDP sees a train as one frame"));
        }
        let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
        Select::attach(&self.object, input, &devices).map_err(|error| error.to_string())
    }

    /// Makes user space run the handler from now on.
    pub(super) fn take_out(&mut self, why: &str) {
        self.shared.leave_kernel();
        self.place = HandlerPlace::UserSpace(why.to_owned());
    }

    pub(super) fn placed(&self) -> &HandlerPlace {
        &self.place
    }

    /// Lets the kernel take over if the stream has sent all records left to user space. Returns whether the
    /// kernel has a mirror.
    pub(super) fn hand_over(&self, running: &RunningStream) -> bool {
        let Some(is_left) = self.shared.with_mirror(|mirror| mirror.left().is_some()) else { return false };
        if !is_left {
            return true;
        }
        let (shared, left_since) = (Arc::clone(&self.shared), Arc::clone(&self.left_since));
        running.with(move |stream| {
            let mut since = left_since.lock();
            shared.with_mirror(|mirror| {
                let Some(left) = mirror.left() else { return };
                // If writing fails, the next call tries again.
                if stream.is_drained() && mirror.left() == Some(left) && stream.is_drained() {
                    mirror.set_sent_on(left).ok();
                    *since = None;
                } else if since.get_or_insert_with(Instant::now).elapsed() > LONGEST_HAND_OVER {
                    mirror.take_over().ok();
                    *since = None;
                }
            });
        });
        true
    }
}

fn cannot_ask(error: io::Error) -> String {
    format!("asking for network devices: {error}")
}

/// The first of these devices that is a TUN or TAP device.
fn tun_among(devices: &[DeviceName]) -> io::Result<Option<&DeviceName>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // A driver that does not report its name is not tun.
    let is_tun = |device: &&DeviceName| driver_of(socket.as_fd(), device).is_ok_and(|driver| driver == TUN);
    Ok(devices.iter().find(is_tun))
}

fn is_group(address: SocketAddrV4) -> bool {
    address.ip().is_multicast() || address.ip().is_broadcast()
}

/// Address of the input of a stream whose handler the kernel can run, or the reason why the kernel cannot run
/// it.
fn input_address(inputs: &[Option<Object>]) -> Result<SocketAddrV4, &'static str> {
    let [Some(input)] = inputs else { return Err("only streams with one UDP input run in the kernel") };
    match input.addresses() {
        Some((SocketAddr::V4(address), _)) if address.ip().is_unspecified() => {
            Err("the input has no address: give the address that receives the datagrams, udp://@ADDRESS:PORT")
        }
        Some((SocketAddr::V4(address), _)) if address.ip().is_loopback() => {
            Err("the input is of this machine alone (127.0.0.0/8)")
        }
        Some((SocketAddr::V4(address), _)) if is_group(address) => {
            Err("multicast inputs are not supported in the kernel")
        }
        Some((SocketAddr::V4(address), _)) => Ok(address),
        _ => Err("only UDP over IPv4 runs in the kernel: give udp://@ADDRESS:PORT as input"),
    }
}

/// Receivers of a mirror in the kernel, or the reason why the kernel cannot mirror.
fn receivers(input: SocketAddrV4, outputs: &[Option<Object>]) -> Result<Vec<Receiver>, &'static str> {
    let receiver = |output: &Option<Object>| match output.as_ref().and_then(Object::addresses) {
        Some((SocketAddr::V4(source), Some(SocketAddr::V4(destination))))
            if !is_group(destination) && destination != input =>
        {
            Ok(Receiver { source, destination })
        }
        _ => Err("the kernel sends to hosts over IPv4 only, and not to the input itself"),
    };
    outputs.iter().map(receiver).collect()
}

//! Streams whose handler runs in the kernel. Mirrors of UDP datagrams with a `bpf` handler run in the kernel
//! entirely; for other streams from UDP, the kernel drops records before user space receives them.
//!
//! A stream whose handlers change is user space's during the change, and placed again after it. Nothing is lost:
//! programs of traffic control are attached and detached between two datagrams, and those of XDP, whose drivers
//! may restart their queues then, stay attached and are paused or exchanged. A mirror begins when user space has
//! sent all that it has, so that the order stays.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wirepath_bpf::{BpfHandler, HandlerObject, InKernel, Mirror, Place, Receiver, Select};
use wirepath_datapath::{DeviceName, devices_of, driver_of};
use wirepath_streams::{Handler, Object, RunningStream, Stream};

use super::spec::handler::{bpf_handler, read_object};
use super::spec::{HandlerSpec, SpecError};

/// Time after which the kernel takes over a stream that is never idle. Records may then overtake others.
const LONGEST_HAND_OVER: Duration = Duration::from_secs(1);

/// Name of the driver of TUN and TAP devices.
const TUN: &str = "tun";

/// Reasons why user space runs the handler.
const NO_HANDLER: &str = "the stream has no bpf handler";
const IS_CHANGED: &str = "a change of the stream is being made, or waits for the end of a record";
pub(super) const HAS_RATE: &str = "a rate limits the stream";
const TAKES_TRAINS: &str =
    "its input has received joined datagrams since the start; use --handler-folder to receive single ones";
const NO_XDP: &str =
    "XDP programs are attached at the start only: drivers may lose datagrams when they are attached later";

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

impl HandlerPlace {
    /// Name of the place, in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            HandlerPlace::Kernel => "kernel",
            HandlerPlace::KernelDrops(_) => "kernel_drops",
            HandlerPlace::UserSpace(_) => "user_space",
        }
    }

    /// Reason why user space runs the handler.
    pub fn reason(&self) -> Option<&str> {
        match self {
            HandlerPlace::Kernel => None,
            HandlerPlace::KernelDrops(why) | HandlerPlace::UserSpace(why) => Some(why),
        }
    }
}

/// Reasons in a stream's configuration, apart from its addresses and handlers, why the kernel cannot run its
/// handler.
pub(super) struct Obstacles {
    /// Reason why the kernel cannot run the handler at all.
    pub(super) to_all: Option<&'static str>,
    /// Reason why the kernel cannot mirror the stream.
    pub(super) to_mirrors: Option<&'static str>,
}

/// `bpf` handler that may run in the kernel.
#[derive(Clone)]
struct Placeable {
    object: HandlerObject,
    /// State shared with the handler of the stream.
    place: Arc<Place>,
}

impl Placeable {
    fn of(handler: &Handler) -> Option<Placeable> {
        let handler: &BpfHandler = handler.as_any()?.downcast_ref()?;
        Some(Placeable { object: handler.object().clone(), place: Arc::clone(handler.place()) })
    }
}

/// Settings of a stream that requests may change and that decide where its handler runs.
pub(super) struct Changeable {
    /// First `bpf` handler of the stream.
    handler: Option<Placeable>,
    /// No other handler is before it.
    is_first: bool,
    /// The stream and its outputs have no other handler.
    is_alone: bool,
    /// A rate limits the stream.
    pub(super) has_rate: bool,
    outputs: usize,
    /// No change of handlers waits for the end of a record.
    pub(super) is_settled: bool,
}

impl Changeable {
    /// Settings of a running stream.
    pub(super) fn of(stream: &Stream) -> Changeable {
        let outputs = stream.status().outputs;
        let of_outputs: usize = outputs.iter().map(|output| output.handlers.len()).sum();
        let has_rate = stream.options().iter().any(|option| option.key == "rate" && option.value != "none");
        Changeable {
            handler: stream.handlers().find_map(Placeable::of),
            is_first: stream.handlers().next().and_then(Placeable::of).is_some(),
            is_alone: stream.handlers().count() + of_outputs == 1,
            has_rate,
            outputs: outputs.len(),
            is_settled: !stream.has_waiting_changes(),
        }
    }

    /// Reason why the kernel cannot run the handler at all.
    fn to_all(&self) -> Option<&'static str> {
        match &self.handler {
            None => Some(NO_HANDLER),
            Some(_) => (!self.is_first).then_some("there are other handlers before it"),
        }
    }

    /// Reason why the kernel cannot mirror the stream.
    fn to_mirrors(&self) -> Option<&'static str> {
        if !self.is_alone {
            return Some("there are other handlers beside it");
        }
        self.has_rate.then_some(HAS_RATE)
    }
}

/// The kernel's part in a stream that has a `bpf` handler or may get one.
pub struct KernelHandler {
    /// First `bpf` handler of the stream.
    handler: Option<Placeable>,
    place: HandlerPlace,
    /// User space runs the handler until a change of the stream has been made.
    is_out: bool,
    /// Address of the input, or the reason why the kernel cannot run a handler of the stream.
    input: Result<SocketAddrV4, String>,
    /// Receivers of a mirror, or the reason why the kernel cannot mirror the stream.
    receivers: Result<Vec<Receiver>, String>,
    /// Paused selection of an earlier handler.
    paused: Option<Select>,
    /// Time since which records have been left to user space.
    left_since: Arc<Mutex<Option<Instant>>>,
}

impl KernelHandler {
    /// The kernel's part in a stream with these handlers. None if there is no `bpf` handler and the stream
    /// cannot get one.
    pub(super) fn of(
        handlers: &[HandlerSpec],
        may_get_one: bool,
    ) -> Result<Option<KernelHandler>, SpecError> {
        let file = handlers.iter().find_map(HandlerSpec::object_file);
        if file.is_none() && !may_get_one {
            return Ok(None);
        }
        let object = file.map(|file| read_object(file)).transpose()?;
        let handler = object.map(|object| Placeable { object, place: Arc::default() });
        let why = || "it was not placed".to_owned();
        let (place, input, receivers) = (HandlerPlace::UserSpace(why()), Err(why()), Err(why()));
        let (is_out, left_since) = (false, Arc::default());
        Ok(Some(KernelHandler { handler, place, is_out, input, receivers, paused: None, left_since }))
    }

    /// The same handler as a handler of the stream, which reports the counts of kernel and user space.
    pub(super) fn handler(&self) -> Option<Handler> {
        self.handler.as_ref().map(|handler| bpf_handler(&handler.object, Arc::clone(&handler.place)))
    }

    /// Settings of a stream that has not started, with these handlers and as many handlers of outputs and
    /// outputs.
    pub(super) fn at_start(
        &self,
        handlers: &[HandlerSpec],
        output_handlers: usize,
        outputs: usize,
    ) -> Changeable {
        Changeable {
            handler: self.handler.clone(),
            is_first: handlers.first().is_some_and(|handler| handler.object_file().is_some()),
            is_alone: handlers.len() + output_handlers == 1,
            has_rate: false,
            outputs,
            is_settled: true,
        }
    }

    /// Decides where the handler of a stream with these objects runs: in the kernel, as far as the kernel can
    /// and the obstacles allow. If settings `may_change`, the kernel may also mirror the stream later.
    pub(super) fn place(
        &mut self,
        obstacles: &Obstacles,
        settings: &Changeable,
        inputs: &[Option<Object>],
        outputs: &[Option<Object>],
        may_change: bool,
    ) {
        self.input = obstacles.to_all.map_or_else(|| input_address(inputs), Err).map_err(str::to_owned);
        self.receivers = self.input.clone().and_then(|input| {
            obstacles.to_mirrors.map_or_else(|| receivers(input, outputs), Err).map_err(str::to_owned)
        });
        let why = match self.mirror(settings) {
            Ok(mirror) => {
                self.place = self.enter(mirror);
                return;
            }
            Err(why) => why,
        };
        let is_tried = settings.to_all().or(settings.to_mirrors()).is_none();
        if is_tried || !may_change || self.receivers.is_err() {
            // Only mirrors need single datagrams. Receiving joined datagrams is cheaper, but cannot end while
            // some may wait in the socket.
            inputs.iter().flatten().for_each(|input| drop(input.take_joined_datagrams(true)));
            let later = if is_tried { why.clone() } else { TAKES_TRAINS.to_owned() };
            self.receivers = self.receivers.clone().and(Err(later));
        }
        match settings.to_all() {
            Some(_) => self.place = HandlerPlace::UserSpace(why),
            None => self.drop_early(why),
        }
    }

    /// Lets the kernel at most drop records early, for this reason, before the stream has received any. User
    /// space does the rest.
    pub(super) fn drop_early(&mut self, why: String) {
        self.take_out();
        let selected = self.select().map(|(place, select)| place.enter_kernel(InKernel::Select(select)));
        (self.place, self.is_out) = (drops_or_none(why, selected), false);
    }

    fn enter(&self, mirror: Mirror) -> HandlerPlace {
        if let Some(handler) = &self.handler {
            handler.place.enter_kernel(InKernel::Mirror(mirror));
        }
        HandlerPlace::Kernel
    }

    /// Has the kernel mirror the stream, if it can.
    fn mirror(&self, settings: &Changeable) -> Result<Mirror, String> {
        let handler = self.handler.as_ref().ok_or(NO_HANDLER)?;
        settings.to_all().map_or(Ok(()), Err)?;
        let input = self.input.clone()?;
        settings.to_mirrors().map_or(Ok(()), Err)?;
        let receivers = self.receivers.clone()?;
        if receivers.len() != settings.outputs {
            return Err("an output is gone".to_owned());
        }
        Mirror::attach(&handler.object, input, &receivers).map_err(|error| error.to_string())
    }

    /// Has the kernel drop records early, if it can. Returns the place of the handler, too.
    fn select(&self) -> Result<(&Place, Select), String> {
        let handler = self.handler.as_ref().ok_or(NO_HANDLER)?;
        let input = self.input.clone()?;
        let devices = devices_of((*input.ip()).into()).map_err(cannot_ask)?;
        if let Some(device) = tun_among(&devices).map_err(cannot_ask)? {
            // The tun driver passes whole trains from a virtual machine to XDP as one frame, like generic
            // XDP.
            return Err(format!("{device} is a TUN or TAP device, of which XDP sees a train as one frame"));
        }
        let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
        let select = Select::attach(&handler.object, input, &devices).map_err(|error| error.to_string())?;
        Ok((&*handler.place, select))
    }

    /// Makes user space run the handler until it is placed again: the stream is about to change.
    pub(super) fn take_out(&mut self) {
        if let Some(handler) = &self.handler {
            handler.place.leave_kernel();
        }
        self.is_out = true;
        *self.left_since.lock() = None;
    }

    /// Decides again where the handler runs, after a change of the stream. Returns whether that or the handler
    /// is new.
    pub(super) fn place_again(&mut self, settings: &Changeable) -> bool {
        let is_same = match (&self.handler, &settings.handler) {
            (Some(before), Some(now)) => Arc::ptr_eq(&before.place, &now.place),
            (before, now) => before.is_none() && now.is_none(),
        };
        if !is_same {
            self.keep_selection();
            self.handler = settings.handler.clone();
        }
        let place = match self.mirror(settings) {
            Ok(mirror) => {
                self.keep_selection();
                self.enter(mirror)
            }
            Err(why) => drops_or_none(why, self.select_again(settings)),
        };
        let is_new = !is_same || place != self.place;
        (self.place, self.is_out) = (place, false);
        is_new
    }

    /// Has the kernel drop records early again, by a program that is attached since the start.
    fn select_again(&mut self, settings: &Changeable) -> Result<(), String> {
        let handler = self.handler.as_ref().ok_or(NO_HANDLER)?;
        settings.to_all().map_or(Ok(()), Err)?;
        self.input.clone()?;
        if handler.place.resume_selection().map_err(|error| error.to_string())? {
            return Ok(());
        }
        let mut selection = self.paused.take().ok_or(NO_XDP)?;
        if let Err(error) = selection.replace(&handler.object) {
            // One that is no longer attached ends.
            self.paused = Some(selection).filter(Select::is_attached);
            return Err(error.to_string());
        }
        handler.place.enter_kernel(InKernel::Select(selection));
        Ok(())
    }

    /// Keeps the paused selection of the handler for another one.
    fn keep_selection(&mut self) {
        let selection = self.handler.as_ref().and_then(|handler| handler.place.take_selection());
        self.paused = selection.or(self.paused.take());
    }

    /// Place of the handler now.
    pub(super) fn placed(&self) -> HandlerPlace {
        match &self.place {
            HandlerPlace::Kernel | HandlerPlace::KernelDrops(_) if self.is_out => {
                HandlerPlace::UserSpace(IS_CHANGED.to_owned())
            }
            place => place.clone(),
        }
    }

    /// Returns whether the stream has a `bpf` handler.
    pub(super) fn has_handler(&self) -> bool {
        self.handler.is_some()
    }

    /// Lets the kernel take over if the stream has sent all records left to user space. Returns whether the
    /// kernel has a mirror.
    pub(super) fn hand_over(&self, running: &RunningStream) -> bool {
        let Some(Placeable { place, .. }) = &self.handler else { return false };
        let Some(is_left) = place.with_mirror(|mirror| mirror.left().is_some()) else { return false };
        if !is_left {
            return true;
        }
        let (place, left_since) = (Arc::clone(place), Arc::clone(&self.left_since));
        running.with(move |stream| {
            let mut since = left_since.lock();
            place.with_mirror(|mirror| {
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

/// Place of a handler that no mirror runs, for this reason, after an attempt at early drops.
fn drops_or_none(why: String, selected: Result<(), String>) -> HandlerPlace {
    match selected {
        Ok(()) => HandlerPlace::KernelDrops(why),
        Err(other) if other == why => HandlerPlace::UserSpace(why),
        Err(other) => HandlerPlace::UserSpace(format!("{why}; the kernel drops no records before: {other}")),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: The status shows a kernel handler in user space while a change of its stream is made.
    #[test]
    fn a_handler_is_shown_in_user_space_during_a_change() {
        let mut kernel = KernelHandler::of(&[], true).unwrap().unwrap();
        let here = HandlerPlace::UserSpace("no XDP".to_owned());
        for (place, shown) in [
            (HandlerPlace::Kernel, IS_CHANGED),
            (HandlerPlace::KernelDrops("two outputs".to_owned()), IS_CHANGED),
            (here.clone(), "no XDP"),
        ] {
            kernel.place = place.clone();
            assert_eq!(kernel.placed(), place);
            kernel.take_out();
            assert_eq!((kernel.placed().name(), kernel.placed().reason()), ("user_space", Some(shown)));
            let settings = kernel.at_start(&[], 0, 1);
            let is_new = kernel.place_again(&settings);
            let why = kernel.placed().reason().map(str::to_owned);
            assert_eq!((is_new, why.as_deref()), (true, Some(NO_HANDLER)));
        }
    }
}

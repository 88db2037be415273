//! Streams whose handler runs in the kernel: mirrors of UDP datagrams with a `bpf` handler.

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wirepath_bpf::{HandlerObject, Mirror, Place, Receiver};
use wirepath_streams::{Handler, Object, RunningStream};

use super::spec::handler::{bpf_handler, read_object};
use super::spec::{HandlerSpec, SpecError};

/// Time after which the kernel takes over from a stream that never has nothing to do: records may overtake
/// others then.
const LONGEST_HAND_OVER: Duration = Duration::from_secs(1);

/// A `bpf` handler of a stream, which may run in the kernel.
pub struct KernelHandler {
    object: HandlerObject,
    place: Arc<Place>,
    /// Reason why user space runs it.
    why_not: Option<String>,
    /// Time from which on records were left to user space.
    left_since: Arc<Mutex<Option<Instant>>>,
}

impl KernelHandler {
    /// The first `bpf` handler of a stream.
    pub(super) fn of(handlers: &[HandlerSpec]) -> Result<Option<KernelHandler>, SpecError> {
        let Some(file) = handlers.iter().find_map(HandlerSpec::object_file) else { return Ok(None) };
        let object = read_object(file)?;
        let why_not = Some("it was not placed".to_owned());
        Ok(Some(KernelHandler { object, place: Arc::default(), why_not, left_since: Arc::default() }))
    }

    /// The same handler for the stream, which reports the counts of both places.
    pub(super) fn handler(&self) -> Handler {
        bpf_handler(&self.object, Arc::clone(&self.place))
    }

    /// Has the kernel run it for a stream with these objects, where it can and there is no `obstacle`.
    pub(super) fn place(
        &mut self,
        obstacle: Option<&'static str>,
        inputs: &[Option<Object>],
        outputs: &[Option<Object>],
    ) {
        let placed = obstacle.map_or_else(|| ends(inputs, outputs), Err).map_err(str::to_owned).and_then(
            |(input, receivers)| {
                Mirror::attach(&self.object, input, &receivers).map_err(|error| error.to_string())
            },
        );
        match placed {
            Ok(mirror) => {
                self.place.enter_kernel(mirror);
                self.why_not = None;
            }
            Err(why) => {
                // Only the kernel needs datagrams one by one. Joined ones are cheaper, and not needed.
                inputs.iter().flatten().for_each(|input| drop(input.take_joined_datagrams(true)));
                self.why_not = Some(why);
            }
        }
    }

    /// Has user space run it from now on.
    pub(super) fn take_out(&mut self, why: &str) {
        self.place.leave_kernel();
        self.why_not = Some(why.to_owned());
    }

    /// Place of the handler: the kernel, or user space for a reason.
    pub(super) fn placed(&self) -> Result<(), String> {
        self.why_not.clone().map_or(Ok(()), Err)
    }

    /// Lets the kernel take over if the stream has sent on all that was left to it. Returns whether the handler
    /// is in the kernel.
    pub(super) fn hand_over(&self, running: &RunningStream) -> bool {
        let Some(is_left) = self.place.with(|mirror| mirror.left().is_some()) else { return false };
        if !is_left {
            return true;
        }
        let (place, left_since) = (Arc::clone(&self.place), Arc::clone(&self.left_since));
        running.with(move |stream| {
            let mut since = left_since.lock();
            place.with(|mirror| {
                let Some(left) = mirror.left() else { return };
                // A failed write is tried again.
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

fn is_group(address: SocketAddrV4) -> bool {
    address.ip().is_multicast() || address.ip().is_broadcast()
}

/// Input and receivers of a stream that the kernel can carry, or the reason why it cannot.
fn ends(
    inputs: &[Option<Object>],
    outputs: &[Option<Object>],
) -> Result<(SocketAddrV4, Vec<Receiver>), &'static str> {
    let [Some(input)] = inputs else { return Err("only streams with one UDP input run in the kernel") };
    let address = match input.addresses() {
        Some((SocketAddr::V4(address), _)) if address.ip().is_unspecified() => {
            return Err(
                "the input has no address: give the one to which datagrams come, udp://@ADDRESS:PORT",
            );
        }
        Some((SocketAddr::V4(address), _)) if address.ip().is_loopback() => {
            return Err("the input is of this machine alone (127.0.0.0/8)");
        }
        Some((SocketAddr::V4(address), _)) if is_group(address) => {
            return Err("only inputs that are no groups run in the kernel");
        }
        Some((SocketAddr::V4(address), _)) => address,
        _ => return Err("only UDP over IPv4 runs in the kernel: give udp://@ADDRESS:PORT as input"),
    };
    let receiver = |output: &Option<Object>| match output.as_ref().and_then(Object::addresses) {
        Some((SocketAddr::V4(source), Some(SocketAddr::V4(destination))))
            if !is_group(destination) && destination != address =>
        {
            Ok(Receiver { source, destination })
        }
        _ => Err("the kernel sends to hosts over IPv4 only, and not to the input itself"),
    };
    let receivers = outputs.iter().map(receiver).collect::<Result<_, _>>()?;
    Ok((address, receivers))
}

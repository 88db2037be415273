//! VLC as distributions build it, without live555: transport streams over UDP.

use anyhow::Result;
use wirepath_tests::{clients, process, require};

use crate::cases::{Bed, Cannot, Case, Codec, LIMIT_S, Operation, Transport, decode, home};

/// Pictures at the end that its output does not have: it ends at once when the session does.
const MISSING: usize = 30;

pub(crate) fn play(case: &Case, bed: &Bed) -> Result<()> {
    require!(process::find("cvlc").is_some(), "not installed");
    if case.format.video != Codec::TransportStream {
        return Err(Cannot("built without live555: plays transport streams only").into());
    }
    if case.transport != Transport::Udp {
        return Err(Cannot("built without live555: plays over UDP only").into());
    }
    if case.operation != Operation::Play {
        return Err(Cannot("its SAT>IP module can neither pause nor seek").into());
    }
    let home = home()?;
    let output = home.path().join("out.ts");
    clients::vlc(&bed.url(case)?, home.path(), &output, LIMIT_S)?;
    case.ensure_pictures(&decode(&output)?[0], bed, MISSING)
}

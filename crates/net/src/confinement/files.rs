//! Files by Landlock, which also blocks signals to other processes and abstract Unix sockets.

use std::ffi::OsString;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::{ConfinementError, Extent, Reach};

/// Newest known version of Landlock (Linux 6.12: including device ioctls and scopes).
const NEWEST: ABI = ABI::V6;

/// Confines this thread and its children to these files.
pub(super) fn confine(reach: &Reach) -> Result<Extent, ConfinementError> {
    let (read, all) = (AccessFs::from_read(NEWEST) & !AccessFs::Execute, AccessFs::from_all(NEWEST));
    let is_abstract = |name: &OsString| name.as_encoded_bytes().starts_with(b"@");
    let scopes = match reach.notify_socket.as_ref().is_some_and(is_abstract) {
        true => Scope::Signal.into(),
        false => Scope::from_all(NEWEST),
    };
    let mut ruleset = Ruleset::default().handle_access(all)?.scope(scopes)?.create()?;
    for path in &reach.readable {
        ruleset = allow(ruleset, path, read)?;
    }
    for path in &reach.writable {
        ruleset = allow(ruleset, path, all & !AccessFs::Execute)?;
    }
    Ok(match ruleset.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => Extent::Whole,
        RulesetStatus::PartiallyEnforced => Extent::Part,
        RulesetStatus::NotEnforced => Extent::Nothing,
    })
}

/// Allows access to a folder and everything below it, or to a file.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, ConfinementError> {
    // The server reports missing files when it needs them.
    let Ok(metadata) = path.metadata() else { return Ok(ruleset) };
    let access = if metadata.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    Ok(ruleset.add_rule(PathBeneath::new(PathFd::new(path)?, access))?)
}

//! Change of a server that was started as root to an ordinary user, for good.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::str::FromStr;

use rustix::process::{Resource, Rlimit, getegid, geteuid, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};
use thiserror::Error;
use wirepath_sys::users::{self, ChangeError, UserIds};

/// Name of a user, with the name of a group other than the user's primary one: `NAME` or `NAME:GROUP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserName {
    user: String,
    group: Option<String>,
}

/// User of this system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    name: UserName,
    ids: UserIds,
    /// All groups of the user, with the group of `ids`.
    groups: Vec<u32>,
}

/// The process cannot change to a user, or cannot give up its privileges.
#[derive(Debug, Error)]
pub enum PrivilegesError {
    /// The user does not exist.
    #[error("user `{0}` not found; `getent passwd` lists the users of this system")]
    NoUser(String),
    /// The group does not exist.
    #[error("group `{0}` not found; `getent group` lists the groups of this system")]
    NoGroup(String),
    /// The look-up of a user or a group failed.
    #[error(
        "cannot look up {0}: {1}; mend the name services in /etc/nsswitch.conf, or name a user of /etc/passwd"
    )]
    LookUp(String, io::Error),
    /// The user has all privileges.
    #[error("user `{0}` has all privileges of root: name another user, or leave the option out")]
    IsRoot(String),
    /// Only root can change to another user.
    #[error(
        "cannot change to user {0}: this process runs as user ID {user}, group ID {group}; start it as root, or as that \
         user",
        user = .1.user, group = .1.group
    )]
    NotRoot(UserName, UserIds),
    /// The kernel refused the change.
    #[error("cannot change to user {0}: {1}; give root CAP_SETUID and CAP_SETGID, or start it as that user")]
    Change(UserName, ChangeError),
    /// Privileges are left.
    #[error("cannot give up the privileges of root for good: {0}; start it as an ordinary user")]
    Kept(String),
}

impl FromStr for UserName {
    type Err = String;

    fn from_str(text: &str) -> Result<UserName, String> {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        if user.is_empty() || group.is_some_and(|group| group.is_empty() || group.contains(':')) {
            return Err("expected NAME or NAME:GROUP".to_owned());
        }
        Ok(UserName { user: user.to_owned(), group: group.map(str::to_owned) })
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.user)?;
        self.group.as_ref().map_or(Ok(()), |group| write!(f, ":{group}"))
    }
}

impl UserName {
    /// Looks up the user, which may read files of the system and ask a service.
    ///
    /// # Errors
    /// The user or the group does not exist, or the user is root.
    pub fn find(&self) -> Result<Account, PrivilegesError> {
        let failed = |name: &str| {
            let name = name.to_owned();
            move |error| PrivilegesError::LookUp(name, error)
        };
        let no_user = || PrivilegesError::NoUser(self.user.clone());
        let user = CString::new(self.user.as_str()).map_err(|_| no_user())?;
        let mut ids = users::user(&user).map_err(failed(&self.user))?.ok_or_else(no_user)?;
        if let Some(name) = &self.group {
            let no_group = || PrivilegesError::NoGroup(name.clone());
            let group = CString::new(name.as_str()).map_err(|_| no_group())?;
            ids.group = users::group(&group).map_err(failed(name))?.ok_or_else(no_group)?;
        }
        if ids.user == 0 {
            return Err(PrivilegesError::IsRoot(self.user.clone()));
        }
        let groups = users::groups_of(&user, ids.group).map_err(failed(&self.user))?;
        Ok(Account { name: self.clone(), ids, groups })
    }
}

impl Account {
    /// Returns whether the process runs as this user already, and in this group if one was named.
    ///
    /// # Errors
    /// The process can change to no other user, since it does not run as root.
    pub fn is_current(&self) -> Result<bool, PrivilegesError> {
        let current = UserIds { user: geteuid().as_raw(), group: getegid().as_raw() };
        let is_group = self.name.group.is_none() || current.group == self.ids.group;
        let is_same = current.user == self.ids.user && is_group;
        if !is_same && current.user != 0 {
            return Err(PrivilegesError::NotRoot(self.name.clone(), current));
        }
        Ok(is_same)
    }

    /// Changes the process to this user, with the user's groups, and gives up all capabilities for good. Must
    /// be called before the process has other threads, since capabilities belong to threads.
    ///
    /// Memory may be locked without limit afterwards, as before: root has no limit. In a container that forbids
    /// this, the hard limit stays.
    ///
    /// # Errors
    /// The kernel refused, or the process can become root again. It must end then.
    pub fn assume(&self) -> Result<(), PrivilegesError> {
        raise_lockable();
        users::change_to(self.ids, &self.groups)
            .map_err(|error| PrivilegesError::Change(self.name.clone(), error))?;
        let kept = |errno: rustix::io::Errno| PrivilegesError::Kept(io::Error::from(errno).to_string());
        // The inheritable set stays after the change, and with some securebits the others do.
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
            .map_err(kept)?;
        // Programs with the set-user-ID bit or with file capabilities give none back.
        set_no_new_privs(true).map_err(kept)?;
        let left = capabilities(None).map_err(kept)?;
        if left.effective | left.permitted | left.inheritable != none {
            return Err(PrivilegesError::Kept("capabilities are left".to_owned()));
        }
        let can_return = users::set_effective_user(0).is_ok()
            || self.ids.group != 0 && users::set_effective_group(0).is_ok();
        if can_return {
            return Err(PrivilegesError::Kept("the process can become root again".to_owned()));
        }
        Ok(())
    }

    /// Name of the user, without the group.
    pub fn user(&self) -> &str {
        &self.name.user
    }
}

/// Raises the limit of locked memory as far as it can be.
fn raise_lockable() {
    if setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None }).is_err() {
        // Refused to root without CAP_SYS_RESOURCE, as in some containers. The hard limit needs no capability.
        let maximum = getrlimit(Resource::Memlock).maximum;
        setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum }).ok();
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UserIds { user, group } = self.ids;
        write!(f, "{} (user ID {user}, group ID {group})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Result<Account, PrivilegesError> {
        text.parse::<UserName>().unwrap().find()
    }

    #[test]
    fn a_user_may_have_a_group() {
        for text in ["anna", "anna:media"] {
            assert_eq!(text.parse::<UserName>().unwrap().to_string(), text);
        }
        for text in ["", ":", ":media", "anna:", "anna:media:video"] {
            assert!(text.parse::<UserName>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_users_and_groups_that_exist_are_found() {
        // Systems have different users, and containers may have none but root.
        let other_than_root = |file: &str| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
            lines.find(|fields| fields.len() > 2 && fields[2] != "0").map(|fields| fields[0].to_owned())
        };
        if let Some((user, group)) = other_than_root("/etc/passwd").zip(other_than_root("/etc/group")) {
            let account = found(&format!("{user}:{group}")).unwrap();
            assert_eq!(account.user(), user);
            assert!(account.groups.contains(&account.ids.group), "{account:?}");
            let error = found(&format!("{user}:no such group")).unwrap_err().to_string();
            assert!(error.starts_with("group `no such group` not found"), "{error}");
        }
        for (text, expected) in [
            ("no such user", "user `no such user` not found"),
            ("root", "user `root` has all privileges"),
            ("nul\0", "user `nul\0` not found"),
        ] {
            let error = found(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn only_root_changes_to_another_user() {
        let current = UserIds { user: geteuid().as_raw(), group: getegid().as_raw() };
        let of = |name: &str, ids| Account { name: name.parse().unwrap(), ids, groups: Vec::new() };
        assert!(of("name:group", current).is_current().unwrap());
        let other_group = UserIds { group: current.group + 1, ..current };
        assert!(of("name", other_group).is_current().unwrap());
        let other_user = UserIds { user: current.user + 1, ..current };
        for (name, ids) in [("name:group", other_group), ("name", other_user)] {
            match of(name, ids).is_current() {
                Ok(is_current) => assert!(current.user == 0 && !is_current, "{name}"),
                Err(error) => {
                    let expected = format!("cannot change to user {name}: this process runs as user ID");
                    assert!(current.user != 0 && error.to_string().starts_with(&expected), "{error}");
                }
            }
        }
    }
}

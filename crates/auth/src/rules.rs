//! Rules: which users which folders are for.

use wirepath_http::{AssetPath, PathError};

/// Users that something is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// All users of the file.
    #[default]
    AnyUser,
    /// These users.
    Users(Vec<String>),
    /// Everyone, without a password.
    Public,
}

/// Rule for a folder or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderUsers {
    /// Path of the folder or file in URLs, not encoded; empty or a slash for everything.
    pub path: String,
    /// Users that it is for.
    pub access: Access,
}

/// Place that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area<'a> {
    /// A path below the root, decoded, without slashes at its ends.
    Path(&'a [u8]),
    /// Status page, status and metrics.
    Status,
    /// Ending of others' sessions.
    Administration,
}

/// Rules of a server. What no rule is about is for any user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Rules with their paths folded.
    folders: Vec<(Vec<u8>, Access)>,
    status: Access,
    administration: Access,
}

/// Rules contradict each other, or one is about no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// No request can have this path.
    #[error("rule for {0:?}: {1}; write the path as in URLs, below the root")]
    Path(String, PathError),
    /// Two rules for one folder.
    #[error("two rules for {0:?}: give one; letter case makes no difference")]
    Twice(String),
}

impl Rules {
    /// Rules for folders, and one for status and metrics.
    pub fn new(folders: &[FolderUsers], status: Access) -> Result<Rules, RulesError> {
        let administration = Access::Users(Vec::new());
        let mut rules = Rules { folders: Vec::new(), status, administration };
        for FolderUsers { path, access } in folders {
            // As paths of requests are read, or a rule for `./a` or `a//b` would protect nothing.
            let read = AssetPath::from_decoded(path.as_bytes());
            let read = read.map_err(|error| RulesError::Path(path.clone(), error))?;
            let folded = fold(read.as_bytes());
            if rules.folders.iter().any(|(other, _)| *other == folded) {
                return Err(RulesError::Twice(path.clone()));
            }
            rules.folders.push((folded, access.clone()));
        }
        Ok(rules)
    }

    /// The rules with administrators; without, there are none.
    pub fn administered_by(self, administration: Access) -> Rules {
        Rules { administration, ..self }
    }

    /// Users that a place is for: by the rule of the innermost folder around it.
    pub(crate) fn access(&self, area: Area<'_>) -> &Access {
        let path = match area {
            Area::Status => return &self.status,
            Area::Administration => return &self.administration,
            Area::Path(path) => path,
        };
        let path = fold(path);
        let is_inside = |folder: &[u8]| {
            let rest = path.strip_prefix(folder);
            folder.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        let around = self.folders.iter().filter(|(folder, _)| is_inside(folder));
        around.max_by_key(|(folder, _)| folder.len()).map_or(&Access::AnyUser, |(_, access)| access)
    }

    /// Names of users in the rules.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        let all = self.folders.iter().map(|(_, access)| access).chain([&self.status, &self.administration]);
        let named =
            all.filter_map(|access| if let Access::Users(users) = access { Some(users) } else { None });
        named.flatten().map(String::as_str)
    }
}

/// A path in lower case, name by name: RTSP finds names that differ from a request's only in case, and they must
/// not escape their rule.
fn fold(path: &[u8]) -> Vec<u8> {
    let names = path.split(|&byte| byte == b'/').map(|name| match std::str::from_utf8(name) {
        Ok(name) => name.to_lowercase().into_bytes(),
        Err(_) => name.to_ascii_lowercase(),
    });
    names.collect::<Vec<_>>().join(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(user: &str) -> Access {
        Access::Users(vec![user.to_owned()])
    }

    /// Promise: No user is an administrator unless the server's options name administrators.
    #[test]
    fn administrators_are_named() {
        let rules = Rules::new(&[], Access::Public).expect("no rules");
        assert_eq!(*rules.access(Area::Administration), Access::Users(Vec::new()));
        let rules = rules.administered_by(named("anna"));
        assert_eq!(*rules.access(Area::Administration), named("anna"));
        assert_eq!(rules.users().collect::<Vec<_>>(), ["anna"]);
    }

    /// Promise: The rule of the innermost folder applies, whatever the case of letters; a path without a rule
    /// needs a user.
    #[test]
    fn the_innermost_folder_decides() {
        let rule = |path: &str, access| FolderUsers { path: path.to_owned(), access };
        let folders =
            [rule("cams", named("bob")), rule("Cams/Lobby", Access::Public), rule("a.ts", named("eve"))];
        let rules = Rules::new(&folders, Access::Public).expect("no contradiction");
        let access = |path: &str| rules.access(Area::Path(path.as_bytes())).clone();
        assert_eq!((access("cams"), access("CAMS/1.ts/track1")), (named("bob"), named("bob")));
        assert_eq!((access("cams/lobby/1.ts"), access("cams/lobby2")), (Access::Public, named("bob")));
        assert_eq!((access("A.ts/track1"), access("a.ts2")), (named("eve"), Access::AnyUser));
        assert_eq!((access(""), access("cams2/1.ts")), (Access::AnyUser, Access::AnyUser));
        assert_eq!(rules.access(Area::Status), &Access::Public);
        assert_eq!(rules.users().collect::<Vec<_>>(), ["bob", "eve"]);
        let root = Rules::new(&[rule("", Access::Public)], Access::AnyUser).expect("one rule");
        assert_eq!(root.access(Area::Path(b"x/y")), &Access::Public);
        let twice = Rules::new(&[rule("a", Access::Public), rule("A", Access::AnyUser)], Access::AnyUser);
        assert_eq!(twice, Err(RulesError::Twice("A".to_owned())));
    }

    /// Promise: A rule protects its folder however its path is written: `cams`, `/cams/`, `./cams` or
    /// `//cams`.
    #[test]
    fn paths_of_rules_are_read_as_those_of_requests() {
        let rules = |path: &str| {
            Rules::new(&[FolderUsers { path: path.to_owned(), access: named("bob") }], Access::AnyUser)
        };
        for path in ["cams/lobby", "/cams/lobby/", "./cams/lobby", "cams//lobby/.", "//cams/./lobby"] {
            let rules = rules(path).expect("a path");
            assert_eq!(rules.access(Area::Path(b"cams/lobby/1.ts")), &named("bob"), "{path}");
            assert_eq!(rules.access(Area::Path(b"cams")), &Access::AnyUser, "{path}");
        }
        for path in ["", "/", "."] {
            assert_eq!(rules(path).expect("the root").access(Area::Path(b"x")), &named("bob"), "{path}");
        }
        let error = rules("cams/../lobby").unwrap_err().to_string();
        assert!(error.starts_with("rule for \"cams/../lobby\": the path holds a `..` segment"), "{error}");
    }
}

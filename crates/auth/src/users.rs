//! Users in the form of htdigest: `user:realm:HA1`, with MD5 as Apache's `htdigest` writes it, and in the same
//! form with SHA-256.

use std::collections::BTreeMap;

use crate::algorithm::{Algorithm, user_hash};

/// Users of one realm, with the hashes of their passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct Users {
    realm: String,
    hashes: BTreeMap<String, Hashes>,
    /// Algorithms to offer. Found once: a challenge must not look at all users.
    offered: Vec<Algorithm>,
}

/// Hashes of a password by algorithm, in the order of [`Algorithm::ALL`].
type Hashes = [Option<String>; Algorithm::ALL.len()];

/// A text is no list of users. No message shows a hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsersError {
    /// A line, counted from 1, cannot be read.
    #[error("line {0}: expected user:realm:HA1 with 32 (MD5) or 64 (SHA-256) hexadecimal digits")]
    Line(usize),
    /// A line has another realm than those above it.
    #[error("line {line}: realm {found:?}: expected {expected:?} as above; a file has one realm")]
    Realm {
        /// The line, counted from 1.
        line: usize,
        /// Its realm.
        found: String,
        /// Realm of the lines above.
        expected: String,
    },
    /// A line has a realm that headers cannot carry.
    #[error("line {0}: the realm has characters beyond ASCII, which headers cannot carry")]
    RealmText(usize),
    /// A user has two hashes of one algorithm.
    #[error("line {0}: the user has a {1} line already; remove one of the two")]
    Twice(usize, &'static str),
    /// No user at all.
    #[error("no users; add one with `wirepath passwd FILE USER`")]
    Empty,
    /// Two users have no algorithm in common, and a challenge is sent before the user is known.
    #[error("user {0:?} has only SHA-256 and user {1:?} only MD5: set one password with `wirepath passwd`")]
    NothingInCommon(String, String),
    /// A name that cannot stand in a line.
    #[error("invalid {0}: expected a name without colon and control characters")]
    Name(&'static str),
}

impl Users {
    /// Reads the lines of a file. Empty lines and those that begin with `#` are skipped.
    pub fn parse(text: &str) -> Result<Users, UsersError> {
        let mut realm: Option<String> = None;
        let mut hashes = BTreeMap::<String, Hashes>::new();
        for (line, text) in lines(text) {
            let Line { user, realm: found, algorithm, hash } =
                Line::parse(text).ok_or(UsersError::Line(line))?;
            match &realm {
                _ if !found.is_ascii() => return Err(UsersError::RealmText(line)),
                Some(expected) if expected != found => {
                    let (found, expected) = (found.to_owned(), expected.clone());
                    return Err(UsersError::Realm { line, found, expected });
                }
                Some(_) => {}
                None => realm = Some(found.to_owned()),
            }
            let place = &mut hashes.entry(user.to_owned()).or_default()[algorithm as usize];
            if place.replace(hash.to_ascii_lowercase()).is_some() {
                return Err(UsersError::Twice(line, algorithm.name()));
            }
        }
        let realm = realm.ok_or(UsersError::Empty)?;
        let offered = offered(&hashes)?;
        Ok(Users { realm, hashes, offered })
    }

    /// No users: nothing is offered, and no password is right.
    pub fn none(realm: &str) -> Users {
        Users { realm: realm.to_owned(), hashes: BTreeMap::new(), offered: Vec::new() }
    }

    /// Realm of all users.
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// Number of users.
    pub fn count(&self) -> usize {
        self.hashes.len()
    }

    /// Returns whether there is a user of this name.
    pub fn has(&self, user: &str) -> bool {
        self.hashes.contains_key(user)
    }

    /// Algorithms to offer, the strongest first.
    pub fn algorithms(&self) -> impl Iterator<Item = Algorithm> {
        self.offered.iter().copied()
    }

    pub(crate) fn hash(&self, user: &str, algorithm: Algorithm) -> Option<&str> {
        self.hashes.get(user)?[algorithm as usize].as_deref()
    }
}

/// SHA-256 only if all users have it, since a client that knows it takes nothing else; MD5 if any user has it.
fn offered(hashes: &BTreeMap<String, Hashes>) -> Result<Vec<Algorithm>, UsersError> {
    let without = |algorithm: Algorithm| {
        hashes.iter().find(|(_, hashes)| hashes[algorithm as usize].is_none()).map(|(user, _)| user)
    };
    let has_md5 = hashes.values().any(|hashes| hashes[Algorithm::Md5 as usize].is_some());
    match (without(Algorithm::Sha256), without(Algorithm::Md5)) {
        (Some(only_md5), Some(only_sha256)) => {
            Err(UsersError::NothingInCommon(only_sha256.clone(), only_md5.clone()))
        }
        (Some(_), None) => Ok(vec![Algorithm::Md5]),
        (None, _) if has_md5 => Ok(vec![Algorithm::Sha256, Algorithm::Md5]),
        (None, _) => Ok(vec![Algorithm::Sha256]),
    }
}

/// Hashes do not belong into a log.
impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Users({:?}, {} users)", self.realm, self.hashes.len())
    }
}

/// A line of a file.
struct Line<'a> {
    user: &'a str,
    realm: &'a str,
    algorithm: Algorithm,
    hash: &'a str,
}

impl Line<'_> {
    fn parse(text: &str) -> Option<Line<'_>> {
        let mut fields = text.split(':');
        let (user, realm, hash) = (fields.next()?, fields.next()?, fields.next()?);
        let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.digits() == hash.len())?;
        let is_valid = fields.next().is_none()
            && is_name(user)
            && is_name(realm)
            && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_valid.then_some(Line { user, realm, algorithm, hash })
    }
}

/// Lines with their numbers, but for empty ones and comments.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim_end()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(':') && !text.chars().any(char::is_control)
}

/// The text of a file in which a user has this password, with both algorithms. Other lines stay as they are.
/// `realm` is for a file without users; in any other it must be that of the file.
pub fn with_password(text: &str, realm: &str, user: &str, password: &str) -> Result<String, UsersError> {
    if !is_name(user) || user.starts_with('#') {
        return Err(UsersError::Name("user name"));
    }
    if !is_name(realm) {
        return Err(UsersError::Name("realm"));
    }
    let is_of_user = |line: &&str| line.split_once(':').is_some_and(|(other, _)| other == user);
    let mut new: String =
        text.lines().filter(|line| !is_of_user(line)).flat_map(|line| [line, "\n"]).collect();
    for algorithm in Algorithm::ALL {
        let hash = user_hash(algorithm, user, realm, password);
        new += &format!("{user}:{realm}:{hash}\n");
    }
    Users::parse(&new).map(|_| new)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "939e7578ed9e3c518a452acee763bce9";

    /// Promise: The server reads files of Apache's htdigest; an error names the invalid line and shows no
    /// hash.
    #[test]
    fn lines_of_htdigest_are_read() {
        let text = format!("# cameras\n\nanna:home:{MD5}\r\nbob smith:home:{}\n", MD5.to_uppercase());
        let users = Users::parse(&text).expect("readable");
        assert_eq!((users.realm(), users.count()), ("home", 2));
        assert_eq!(users.hash("bob smith", Algorithm::Md5), Some(MD5));
        assert_eq!(users.hash("anna", Algorithm::Sha256), None);
        assert_eq!(users.algorithms().collect::<Vec<_>>(), [Algorithm::Md5]);
        for (text, error) in [
            (String::new(), UsersError::Empty),
            (format!("\nanna:home:{MD5}0"), UsersError::Line(2)),
            (format!("anna:home:x:{MD5}"), UsersError::Line(1)),
            (format!(":home:{MD5}"), UsersError::Line(1)),
            (format!("a::{MD5}"), UsersError::Line(1)),
            ("anna:home".to_owned(), UsersError::Line(1)),
            (format!("anna:home:{}", MD5.replace('9', "x")), UsersError::Line(1)),
            (format!("a:hütte:{MD5}"), UsersError::RealmText(1)),
            (format!("a:h:{MD5}\na:h:{MD5}"), UsersError::Twice(2, "MD5")),
        ] {
            let found = Users::parse(&text).unwrap_err();
            assert!(!found.to_string().contains(&MD5[..8]), "{found}");
            assert_eq!(found, error);
        }
        let error = Users::parse(&format!("a:one:{MD5}\nb:two:{MD5}")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2: realm \"two\": expected \"one\" as above; a file has one realm"
        );
    }

    #[test]
    fn a_password_replaces_the_lines_of_its_user() {
        let old = format!("# kept\nanna:home:{MD5}\nannabel:home:{MD5}\n");
        let new = with_password(&old, "home", "anna", "secret").expect("valid");
        assert!(new.starts_with(&format!("# kept\nannabel:home:{MD5}\nanna:home:")), "{new}");
        let users = Users::parse(&new).expect("readable");
        for algorithm in Algorithm::ALL {
            let hash = user_hash(algorithm, "anna", "home", "secret");
            assert_eq!(users.hash("anna", algorithm), Some(hash.as_str()));
        }
        assert_eq!(users.algorithms().collect::<Vec<_>>(), [Algorithm::Md5], "annabel has no SHA-256");
        assert!(matches!(with_password(&old, "other", "anna", "x"), Err(UsersError::Realm { .. })));
        let first = with_password("", "home", "anna", "x").expect("valid");
        assert_eq!(Users::parse(&first).unwrap().algorithms().collect::<Vec<_>>(), Algorithm::ALL);
        for user in ["", "a:b", "a\n", "#a"] {
            assert_eq!(with_password("", "home", user, "x"), Err(UsersError::Name("user name")));
        }
    }

    #[test]
    fn users_without_an_algorithm_in_common_are_refused() {
        let sha256 = format!("anna:home:{}\n", "a".repeat(64));
        assert_eq!(Users::parse(&sha256).unwrap().algorithms().collect::<Vec<_>>(), [Algorithm::Sha256]);
        let error = Users::parse(&format!("{sha256}bob:home:{MD5}\n")).unwrap_err();
        assert_eq!(error, UsersError::NothingInCommon("anna".to_owned(), "bob".to_owned()));
        let both = format!("{sha256}anna:home:{MD5}\nbob:home:{MD5}\n");
        assert_eq!(Users::parse(&both).unwrap().algorithms().collect::<Vec<_>>(), [Algorithm::Md5]);
    }
}

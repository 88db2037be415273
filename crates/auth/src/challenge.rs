//! RFC 7616 section 3.3: `WWW-Authenticate`.

use std::fmt;

use crate::algorithm::{Algorithm, user_hash};
use crate::credentials::{ClientCount, Credentials};
use crate::parameters::{Parameters, after_scheme, quote};

/// A challenge. Its text begins as live555 reads it literally: `Digest realm="…", nonce="…"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Realm, which is hashed with every password.
    pub realm: String,
    /// Nonce.
    pub nonce: String,
    /// Hash function.
    pub algorithm: Algorithm,
    /// True if the client is to answer with `qop=auth`, which counts its requests.
    pub counts: bool,
    /// True if the last answer was right but for its nonce.
    pub is_stale: bool,
}

impl Challenge {
    /// Reads the value of `WWW-Authenticate`; none if this is not a Digest challenge of a known algorithm.
    pub fn parse(value: &str) -> Option<Challenge> {
        let parameters = Parameters::parse(after_scheme(value)?)?;
        let qop = parameters.find("qop");
        let counts = qop.is_some_and(|list| list.split(',').any(|qop| qop.trim() == "auth"));
        Some(Challenge {
            realm: parameters.find("realm")?.to_owned(),
            nonce: parameters.find("nonce")?.to_owned(),
            algorithm: parameters.find("algorithm").map_or(Some(Algorithm::Md5), Algorithm::named)?,
            counts,
            is_stale: parameters.find("stale").is_some_and(|stale| stale.eq_ignore_ascii_case("true")),
        })
        .filter(|_| qop.is_none() || counts)
    }

    /// A client's answer for a request, its `number`th with this nonce.
    pub fn answer(
        &self,
        (user, password): (&str, &str),
        (method, uri): (&str, &str),
        (number, cnonce): (u32, &str),
    ) -> Credentials {
        let count = || ClientCount { number, text: format!("{number:08x}"), cnonce: cnonce.to_owned() };
        let mut credentials = Credentials {
            user: user.to_owned(),
            realm: self.realm.clone(),
            nonce: self.nonce.clone(),
            uri: uri.to_owned(),
            response: String::new(),
            algorithm: self.algorithm,
            count: self.counts.then(count),
        };
        let hash = user_hash(self.algorithm, user, &self.realm, password);
        credentials.response = credentials.expected_response(&hash, method);
        credentials
    }
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest realm={}, nonce={}", quote(&self.realm), quote(&self.nonce))?;
        if self.counts {
            f.write_str(", qop=\"auth\"")?;
        }
        write!(f, ", algorithm={}", self.algorithm.name())?;
        if self.is_stale { f.write_str(", stale=true") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_read_as_it_was_written() {
        for (counts, is_stale) in [(true, true), (true, false), (false, false)] {
            for algorithm in Algorithm::ALL {
                let (realm, nonce) = ("a \"b\"".to_owned(), "00ff".to_owned());
                let challenge = Challenge { realm, nonce, algorithm, counts, is_stale };
                assert_eq!(Challenge::parse(&challenge.to_string()), Some(challenge));
            }
        }
        let old = Challenge::parse("Digest realm=\"LIVE\", nonce=\"1\"").expect("RFC 2069");
        assert_eq!((old.algorithm, old.counts), (Algorithm::Md5, false));
        for other in ["Basic realm=\"x\"", "Digest realm=\"x\", nonce=\"1\", qop=\"auth-int\"", ""] {
            assert_eq!(Challenge::parse(other), None);
        }
    }

    /// live555 reads challenges with `sscanf` of this form.
    #[test]
    fn the_text_begins_as_live555_reads_it() {
        let (realm, nonce, algorithm) = ("Wirepath".to_owned(), "1a".to_owned(), Algorithm::Md5);
        let challenge = Challenge { realm, nonce, algorithm, counts: true, is_stale: true };
        let text = "Digest realm=\"Wirepath\", nonce=\"1a\", qop=\"auth\", algorithm=MD5, stale=true";
        assert_eq!(challenge.to_string(), text);
    }
}

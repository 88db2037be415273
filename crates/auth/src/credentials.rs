//! RFC 7616 section 3.4: `Authorization`, as clients send it.

use crate::algorithm::Algorithm;
use crate::parameters::{Parameters, after_scheme, quote};

/// The answer to a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Name of the user.
    pub user: String,
    /// Realm of the challenge.
    pub realm: String,
    /// Nonce of the challenge.
    pub nonce: String,
    /// URI that the client hashed; it may differ from the request's in form.
    pub uri: String,
    /// The hash.
    pub response: String,
    /// Hash function.
    pub algorithm: Algorithm,
    /// Count and nonce of the client, with `qop=auth`; none in the form of RFC 2069.
    pub count: Option<ClientCount>,
}

/// Count of a client's requests with one nonce, and the client's own nonce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCount {
    /// `nc`.
    pub number: u32,
    /// `nc` as it was sent, which is what is hashed.
    pub text: String,
    /// `cnonce`.
    pub cnonce: String,
}

/// Credentials that are no answer to a challenge of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// Another scheme; or Basic, without TLS.
    #[error("Authorization: only Digest is supported, and over TLS Basic")]
    Scheme,
    /// Not `name=value` parameters, or one of them twice.
    #[error("Authorization: malformed parameters")]
    Malformed,
    /// A parameter is missing.
    #[error("Authorization: {0} is missing")]
    Missing(&'static str),
    /// A value that no challenge of this server offers.
    #[error("Authorization: unsupported {0}")]
    Unsupported(&'static str),
}

impl Credentials {
    /// Reads the value of `Authorization`.
    pub fn parse(value: &str) -> Result<Credentials, CredentialsError> {
        let parameters = after_scheme(value).ok_or(CredentialsError::Scheme)?;
        let parameters = Parameters::parse(parameters).ok_or(CredentialsError::Malformed)?;
        let find = |name: &'static str| {
            parameters.find(name).map(str::to_owned).ok_or(CredentialsError::Missing(name))
        };
        let algorithm = match parameters.find("algorithm") {
            // RFC 2617 section 3.2.1.
            None => Algorithm::Md5,
            Some(name) => Algorithm::named(name).ok_or(CredentialsError::Unsupported("algorithm"))?,
        };
        let count = match parameters.find("qop") {
            None => None,
            Some(qop) if qop.eq_ignore_ascii_case("auth") => {
                let (text, cnonce) = (find("nc")?, find("cnonce")?);
                let is_count = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                let number = u32::from_str_radix(&text, 16).ok().filter(|_| is_count);
                Some(ClientCount { number: number.ok_or(CredentialsError::Unsupported("nc"))?, text, cnonce })
            }
            Some(_) => return Err(CredentialsError::Unsupported("qop")),
        };
        Ok(Credentials {
            user: find("username")?,
            realm: find("realm")?,
            nonce: find("nonce")?,
            uri: find("uri")?,
            response: find("response")?,
            algorithm,
            count,
        })
    }

    /// The right `response` for a user with this hash (RFC 7616 sections 3.4.1 and 3.4.6; RFC 2069 section
    /// 2.4 without a count).
    pub fn expected_response(&self, user_hash: &str, method: &str) -> String {
        let request = self.algorithm.hash(&[method, &self.uri]);
        match &self.count {
            Some(ClientCount { text, cnonce, .. }) => {
                self.algorithm.hash(&[user_hash, &self.nonce, text, cnonce, "auth", &request])
            }
            None => self.algorithm.hash(&[user_hash, &self.nonce, &request]),
        }
    }

    /// The value of `Authorization`.
    pub fn header(&self) -> String {
        let quoted = [
            ("username", &self.user),
            ("realm", &self.realm),
            ("nonce", &self.nonce),
            ("uri", &self.uri),
            ("response", &self.response),
        ];
        let quoted = quoted.map(|(name, value)| format!("{name}={}", quote(value))).join(", ");
        let count = self.count.as_ref().map_or_else(String::new, |ClientCount { text, cnonce, .. }| {
            format!(", qop=auth, nc={text}, cnonce={}", quote(cnonce))
        });
        format!("Digest {quoted}, algorithm={}{count}", self.algorithm.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user_hash;

    /// The example of RFC 7616 section 3.9.1.
    fn example(algorithm: &str, response: &str) -> String {
        format!(
            "Digest username=\"Mufasa\", realm=\"http-auth@example.org\", uri=\"/dir/index.html\", \
             algorithm={algorithm}, nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", nc=00000001, \
             cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\", qop=auth, response=\"{response}\", \
             opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
        )
    }

    /// Promise: Digest responses match the examples of RFC 7616 and RFC 2617, and work without qop as in RFC
    /// 2069.
    #[test]
    fn the_examples_of_the_rfcs() {
        for (algorithm, response) in [
            (Algorithm::Md5, "8ca523f5e9506fed4657c9700eebdbec"),
            (Algorithm::Sha256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let header = example(algorithm.name(), response);
            let credentials = Credentials::parse(&header).expect("readable");
            let hash = user_hash(algorithm, "Mufasa", &credentials.realm, "Circle of Life");
            assert_eq!(credentials.expected_response(&hash, "GET"), response);
            assert_ne!(credentials.expected_response(&hash, "PUT"), response);
            assert_eq!(Credentials::parse(&credentials.header()), Ok(credentials));
        }
        // RFC 2617 section 3.5, and its erratum of RFC 2069's example.
        let header = "Digest username=\"Mufasa\", realm=\"testrealm@host.com\", \
                      nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", uri=\"/dir/index.html\", qop=auth, \
                      nc=00000001, cnonce=\"0a4f113b\", response=\"6629fae49393a05397450978507c4ef1\"";
        let credentials = Credentials::parse(header).expect("readable");
        let hash = user_hash(Algorithm::Md5, "Mufasa", "testrealm@host.com", "Circle Of Life");
        assert_eq!(credentials.expected_response(&hash, "GET"), credentials.response);
        let old = Credentials { count: None, ..credentials };
        assert_eq!(old.expected_response(&hash, "GET"), "670fd8c2df070c60b045671b8b24ff02");
    }

    #[test]
    fn what_is_no_answer_is_told_apart() {
        let read = |value: &str| Credentials::parse(value).unwrap_err();
        assert_eq!(read("Basic YTpi"), CredentialsError::Scheme);
        assert_eq!(read("Digest username"), CredentialsError::Malformed);
        assert_eq!(read("Digest username=\"a\""), CredentialsError::Missing("realm"));
        let header = example("MD5", "x");
        for (from, to, error) in [
            ("=MD5", "=MD5-sess", CredentialsError::Unsupported("algorithm")),
            ("qop=auth", "qop=auth-int", CredentialsError::Unsupported("qop")),
            ("nc=00000001", "nc=1", CredentialsError::Unsupported("nc")),
            ("nc=00000001", "nc=+0000001", CredentialsError::Unsupported("nc")),
            ("cnonce=", "other=", CredentialsError::Missing("cnonce")),
        ] {
            assert_eq!(read(&header.replace(from, to)), error);
        }
    }
}

//! Basic authentication (RFC 7617): the password itself, so for connections with TLS only.

use base64::prelude::{BASE64_STANDARD, Engine};

use crate::parameters::quote;

/// User and password of a request. Without `Debug`: passwords do not belong into a log.
#[derive(PartialEq, Eq)]
pub struct BasicCredentials {
    /// Name of the user.
    pub user: String,
    /// Password.
    pub password: String,
}

impl BasicCredentials {
    /// Reads the value of `Authorization` behind `Basic`; none if it is not Base64 of UTF-8 with a colon.
    pub(crate) fn parse(encoded: &str) -> Option<Self> {
        let text = String::from_utf8(BASE64_STANDARD.decode(encoded.trim()).ok()?).ok()?;
        let (user, password) = text.split_once(':')?;
        Some(Self { user: user.to_owned(), password: password.to_owned() })
    }
}

/// The part of the value of `Authorization` behind `Basic`; none if it is of another scheme.
pub(crate) fn after_basic(value: &str) -> Option<&str> {
    let (scheme, rest) = value.trim().split_once([' ', '\t'])?;
    scheme.eq_ignore_ascii_case("Basic").then_some(rest)
}

/// Challenge of a realm.
pub(crate) fn challenge(realm: &str) -> String {
    format!("Basic realm={}, charset=\"UTF-8\"", quote(realm))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc() {
        let read = |value| after_basic(value).and_then(BasicCredentials::parse);
        let example = read("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==").expect("readable");
        assert_eq!((&*example.user, &*example.password), ("Aladdin", "open sesame"));
        // RFC 7617 section 2.1.
        assert!(read("basic dGVzdDoxMjPCow==").is_some_and(|basic| basic.password == "123\u{a3}"));
        assert!(read("Basic YTpiOmM=").is_some_and(|basic| basic.password == "b:c"));
        for other in ["Basic", "Basic QQ==", "Basic ?", "Basic /zp/", "Digest a=b"] {
            assert!(read(other).is_none(), "{other}");
        }
        assert_eq!(challenge("home"), "Basic realm=\"home\", charset=\"UTF-8\"");
    }
}

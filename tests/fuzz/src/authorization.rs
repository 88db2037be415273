//! The readers of `Authorization` and `WWW-Authenticate`, and the decision: no header makes them panic, what was
//! read can be written and read again, and nobody is admitted without a password.

use std::sync::OnceLock;
use std::time::Duration;

use wirepath_auth::{
    Access, Area, Attempt, Authenticator, Challenge, Credentials, Rules, Users, with_password,
};

/// Reads `data` as either header, as a file of users, and as the credentials of a request.
pub fn fuzz(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(credentials) = Credentials::parse(text) {
        assert_eq!(Credentials::parse(&credentials.header()), Ok(credentials));
    }
    if let Some(challenge) = Challenge::parse(text) {
        assert_eq!(Challenge::parse(&challenge.to_string()), Some(challenge));
    }
    if let Ok(users) = Users::parse(text) {
        assert!(users.count() > 0 && users.algorithms().next().is_some());
        let changed = with_password(text, users.realm(), "new", "secret").expect("a user more");
        assert!(Users::parse(&changed).is_ok_and(|users| users.has("new")));
    }
    let (path, client) = (&b"a"[..], std::net::Ipv4Addr::LOCALHOST.into());
    let attempt = Attempt {
        method: "GET",
        area: Area::Path(path),
        path,
        presentation: None,
        authorization: Some(text),
        is_secure: true,
        admitted: None,
        client,
        counted: client,
        now_ms: 0,
    };
    assert!(authenticator().check(&attempt).is_err(), "{text:?} is admitted");
}

fn authenticator() -> &'static Authenticator {
    static AUTHENTICATOR: OnceLock<Authenticator> = OnceLock::new();
    AUTHENTICATOR.get_or_init(|| {
        let password = "a password that no seed has";
        let text = with_password("", "Wirepath", "anna", password).expect("a valid name");
        let rules = Rules::new(&[], Access::AnyUser).expect("no rules");
        let users = Users::parse(&text).expect("valid users");
        Authenticator::new(users, rules, &[0; 32], Duration::from_secs(1))
    })
}

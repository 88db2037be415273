use super::*;
use crate::rules::FolderUsers;
use crate::users::with_password;

const LIFETIME: Duration = Duration::from_secs(60);

fn users(names: &[&str]) -> Users {
    let text =
        names.iter().try_fold(String::new(), |text, name| with_password(&text, "home", name, "secret"));
    Users::parse(&text.expect("valid names")).expect("valid users")
}

fn authenticator(folders: &[FolderUsers]) -> Authenticator {
    let rules = Rules::new(folders, Access::AnyUser).expect("no contradiction");
    Authenticator::new(users(&["anna", "bob"]), rules, &[1; 32], LIFETIME)
}

fn attempt<'a>(path: &'a str, authorization: Option<&'a str>) -> Attempt<'a> {
    let client = "10.0.0.1".parse().expect("an address");
    let path = path.as_bytes();
    let (method, area, presentation) = ("DESCRIBE", Area::Path(path), None);
    let (is_secure, admitted, counted, now_ms) = (false, None, client, 5);
    Attempt { method, area, path, presentation, authorization, is_secure, admitted, client, counted, now_ms }
}

/// The answer of a client that takes the challenge of this place.
fn answer(denial: &Denial, place: usize, user: (&str, &str), uri: &str, number: u32) -> Credentials {
    let challenge = Challenge::parse(&denial.challenges[place]).expect("a challenge");
    challenge.answer(user, ("DESCRIBE", uri), (number, "c"))
}

fn admitted(user: &str) -> Result<Option<String>, Denial> {
    Ok(Some(user.to_owned()))
}

fn reason(result: Result<Option<String>, Denial>) -> Option<Reason> {
    result.err().map(|denial| denial.reason)
}

/// Promise: The challenge offers SHA-256 first and MD5 last, and the server accepts both.
#[test]
fn both_algorithms_are_offered_and_accepted() {
    let authenticator = authenticator(&[]);
    let denial = authenticator.check(&attempt("a.ts", None)).unwrap_err();
    assert_eq!((denial.reason, denial.delay), (Reason::Missing, Duration::ZERO));
    assert_eq!(denial.challenges.len(), 2);
    assert!(denial.challenges[0].starts_with("Digest realm=\"home\", nonce=\""));
    assert!(denial.challenges[0].ends_with("algorithm=SHA-256") && denial.challenges[1].ends_with("=MD5"));
    for (place, number) in [(0, 1), (1, 2)] {
        let right = answer(&denial, place, ("anna", "secret"), "rtsp://h:1/./a.ts?x", number);
        assert_eq!(authenticator.check(&attempt("a.ts", Some(&right.header()))), admitted("anna"));
        let old = Challenge { counts: false, ..Challenge::parse(&denial.challenges[place]).expect("one") };
        let old = old.answer(("bob", "secret"), ("DESCRIBE", "/a.ts"), (0, ""));
        for _ in 0..2 {
            let header = old.header();
            assert_eq!(authenticator.check(&attempt("a.ts", Some(&header))), admitted("bob"), "RFC 2069");
        }
    }
}

/// Promise: A replayed or expired nonce is answered with `stale=true` and a new challenge.
#[test]
fn a_nonce_that_was_used_or_has_expired_is_stale() {
    let authenticator = authenticator(&[]);
    let denial = authenticator.check(&attempt("a.ts", None)).unwrap_err();
    let right = answer(&denial, 1, ("anna", "secret"), "/a.ts", 1).header();
    let first = attempt("a.ts", Some(&right));
    assert_eq!(authenticator.check(&first), admitted("anna"));
    let replayed = authenticator.check(&first).unwrap_err();
    assert_eq!((replayed.reason, replayed.delay), (Reason::Stale, Duration::ZERO));
    assert!(replayed.challenges.iter().all(|challenge| challenge.ends_with(", stale=true")));
    let next = answer(&denial, 1, ("anna", "secret"), "/a.ts", 2).header();
    let expired = Attempt { now_ms: 60_005, ..attempt("a.ts", Some(&next)) };
    assert_eq!(reason(authenticator.check(&expired)), Some(Reason::Stale));
    let elsewhere = Attempt { client: "10.0.0.9".parse().unwrap(), ..attempt("a.ts", Some(&next)) };
    assert_eq!(reason(authenticator.check(&elsewhere)), Some(Reason::Stale));
    // A client without the password is not told that a nonce was right.
    let wrong = answer(&denial, 1, ("anna", "guess"), "/a.ts", 3).header();
    let wrong = Attempt { now_ms: 60_005, ..attempt("a.ts", Some(&wrong)) };
    assert_eq!(reason(authenticator.check(&wrong)), Some(Reason::Wrong));
}

#[test]
fn an_answer_is_for_its_request_only() {
    let authenticator = authenticator(&[]);
    let denial = authenticator.check(&attempt("a.ts", None)).unwrap_err();
    let right = answer(&denial, 1, ("anna", "secret"), "rtsp://h/a.ts/", 1);
    let header = right.header();
    let other_path = attempt("b.ts", Some(&header));
    let other_method = Attempt { method: "SETUP", ..attempt("a.ts", Some(&header)) };
    let unknown = answer(&denial, 1, ("eve", "secret"), "/a.ts", 1).header();
    let realm = Credentials { realm: "other".to_owned(), ..right.clone() }.header();
    let uri = answer(&denial, 1, ("anna", "secret"), "a.ts", 1).header();
    let wrong = [other_path, other_method, attempt("a.ts", Some(&unknown))];
    let wrong = wrong.into_iter().chain([attempt("a.ts", Some(&realm)), attempt("a.ts", Some(&uri))]);
    for wrong in wrong {
        assert_eq!(reason(authenticator.check(&wrong)), Some(Reason::Wrong), "{wrong:?}");
    }
    let track = Attempt { presentation: Some(b"a.ts"), ..attempt("a.ts/track1", Some(&header)) };
    assert_eq!(authenticator.check(&track), admitted("anna"), "live555 hashes the presentation's URL");
}

/// Promise: Rules open folders to everyone or to some users only; other users get 403.
#[test]
fn rules_narrow_and_open() {
    let rule = |path: &str, access| FolderUsers { path: path.to_owned(), access };
    let named = Access::Users(vec!["bob".to_owned(), "eve".to_owned()]);
    let authenticator = authenticator(&[rule("cams", named), rule("open", Access::Public)]);
    assert_eq!(authenticator.unknown_users(), ["eve"]);
    assert_eq!(authenticator.check(&attempt("open/a.ts", None)), Ok(None));
    let denial = authenticator.check(&attempt("cams/a.ts", None)).unwrap_err();
    let ask = |user, number| {
        let header = answer(&denial, 0, (user, "secret"), "/cams/a.ts", number).header();
        authenticator.check(&attempt("cams/a.ts", Some(&header)))
    };
    assert_eq!(ask("bob", 1), admitted("bob"));
    let forbidden = ask("anna", 2).unwrap_err();
    assert_eq!((forbidden.reason, forbidden.challenges.len()), (Reason::Forbidden, 0));
    authenticator.replace_users(users(&["eve"]));
    assert_eq!(reason(ask("bob", 3)), Some(Reason::Wrong));
    assert_eq!(ask("eve", 4), admitted("eve"));
}

/// Promise: After ten wrong passwords at once, even a correct password waits.
#[test]
fn attempts_of_a_guessing_address_are_not_checked() {
    let authenticator = authenticator(&[]);
    let denial = authenticator.check(&attempt("a.ts", None)).unwrap_err();
    let wrong = answer(&denial, 1, ("anna", "guess"), "/a.ts", 1).header();
    let delays: u64 = (0..10)
        .map(|_| authenticator.check(&attempt("a.ts", Some(&wrong))).unwrap_err().delay.as_secs())
        .sum();
    assert_eq!(delays, 1 + 2 + 3 + 4 + 5);
    let right = answer(&denial, 1, ("anna", "secret"), "/a.ts", 1).header();
    let right = attempt("a.ts", Some(&right));
    assert_eq!(reason(authenticator.check(&right)), Some(Reason::Slowed));
    let elsewhere = Attempt { counted: "10.0.0.2".parse().unwrap(), ..right };
    assert_eq!(authenticator.check(&elsewhere), admitted("anna"));
    // Others behind this address who have shown their passwords before are not disturbed; guesses stay wrong.
    let next = answer(&denial, 1, ("anna", "secret"), "/a.ts", 2).header();
    let next = attempt("a.ts", Some(&next));
    let of_other = Attempt { admitted: Some("bob"), ..next };
    assert_eq!(reason(authenticator.check(&of_other)), Some(Reason::Slowed));
    assert_eq!(authenticator.check(&Attempt { admitted: Some("anna"), ..next }), admitted("anna"));
    let guess = Attempt { admitted: Some("anna"), ..attempt("a.ts", Some(&wrong)) };
    let guess = authenticator.check(&guess).unwrap_err();
    assert_eq!((guess.reason, guess.delay), (Reason::Wrong, crate::MOST_DELAY));
    let later = Attempt { now_ms: 2010, ..right };
    assert_eq!(reason(authenticator.check(&later)), Some(Reason::Stale), "it was used");
    let basic = attempt("a.ts", Some("Basic YTpi"));
    let denial = authenticator.check(&basic).unwrap_err();
    assert_eq!(denial.reason, Reason::Malformed(CredentialsError::Scheme));
    assert_eq!((denial.challenges.len(), denial.delay), (2, UNREADABLE_DELAY), "VLC 3 would not stop asking");
}

/// Promise: Over TLS, Basic is offered after Digest and admits users by password; without TLS, Basic is
/// refused.
#[test]
fn basic_is_for_tls() {
    let rule = |path: &str, user: &str| FolderUsers {
        path: path.to_owned(),
        access: Access::Users(vec![user.to_owned()]),
    };
    let authenticator = authenticator(&[rule("cams", "bob")]);
    let secure = |path, authorization| Attempt { is_secure: true, ..attempt(path, authorization) };
    let offered = authenticator.check(&secure("a.ts", None)).unwrap_err().challenges;
    assert_eq!(offered.len(), 3);
    assert!(offered[..2].iter().all(|challenge| challenge.starts_with("Digest ")));
    assert_eq!(offered[2], "Basic realm=\"home\", charset=\"UTF-8\"");
    let (right, wrong) = ("Basic YW5uYTpzZWNyZXQ=", "Basic YW5uYTpzZWNyZXQh"); // anna:secret, anna:secret!
    assert_eq!(authenticator.check(&secure("a.ts", Some(right))), admitted("anna"));
    assert_eq!(reason(authenticator.check(&secure("cams/a.ts", Some(right)))), Some(Reason::Forbidden));
    let plain = authenticator.check(&attempt("a.ts", Some(right))).unwrap_err();
    assert_eq!((plain.reason, plain.challenges.len()), (Reason::Malformed(CredentialsError::Scheme), 2));
    let nobody = "Basic ZXZlOnNlY3JldA=="; // eve:secret
    assert_eq!(reason(authenticator.check(&secure("a.ts", Some(nobody)))), Some(Reason::Wrong));
    let unreadable = authenticator.check(&secure("a.ts", Some("Basic ?"))).unwrap_err();
    assert_eq!(unreadable.reason, Reason::Malformed(CredentialsError::Malformed));
    let delays: Vec<_> = (0..12)
        .map(|_| authenticator.check(&secure("a.ts", Some(wrong))).unwrap_err())
        .map(|denial| (denial.reason, denial.delay))
        .collect();
    assert_eq!(delays[0], (Reason::Wrong, Duration::ZERO));
    assert!(delays[8].1 > Duration::ZERO && delays[11].0 == Reason::Slowed, "{delays:?}");
    assert_eq!(reason(authenticator.check(&secure("a.ts", Some(right)))), Some(Reason::Slowed));
}

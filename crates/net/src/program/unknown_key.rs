//! Errors about unknown keys of configuration files, with the nearest known key.

/// Least similarity (Jaro, from 0 to 1) at which a known key is suggested, the same as for flags.
const LEAST_SIMILARITY: f64 = 0.7;

/// Error about an unknown key: suggests the most similar known key, or lists all known keys if none is similar.
///
/// ```
/// use wirepath_net::program::unknown_key;
///
/// assert_eq!(unknown_key("htpp", &["http", "rtsp"]), "unknown key `htpp`: did you mean `http`?");
/// assert_eq!(unknown_key("name", &["http", "rtsp"]), "unknown key `name`: expected http, rtsp");
/// ```
pub fn unknown_key(key: &str, known: &[&str]) -> String {
    let similar = known.iter().map(|known| (strsim::jaro(key, known), known));
    let similar = similar.filter(|(similarity, _)| *similarity > LEAST_SIMILARITY);
    let nearest = similar.max_by(|(one, _), (other, _)| one.total_cmp(other));
    let key = key.escape_debug(); // the log may go to a terminal
    match nearest {
        Some((_, nearest)) => format!("unknown key `{key}`: did you mean `{nearest}`?"),
        None => format!("unknown key `{key}`: expected {}", known.join(", ")),
    }
}

/// [`unknown_key`] for a deserialization error about an unknown field, whose message lists the known ones; `None`
/// for other errors.
pub fn unknown_field(message: &str) -> Option<String> {
    let (key, known) = message.strip_prefix("unknown field `")?.rsplit_once("`, expected ")?;
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    Some(unknown_key(key, &known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_key_is_suggested() {
        let known = ["rtp-ports", "tls-key", "tls-certificate", "threads", "users", "folder-users", "cache"];
        for (key, nearest) in [
            ("thread", "threads"),
            ("tls-cert", "tls-certificate"),
            ("rtp_ports", "rtp-ports"),
            ("user", "users"),
            ("chache", "cache"),
        ] {
            assert_eq!(unknown_key(key, &known), format!("unknown key `{key}`: did you mean `{nearest}`?"));
        }
        assert!(unknown_key("", &known).ends_with(
            "expected rtp-ports, tls-key, tls-certificate, threads, \
                                                   users, folder-users, cache"
        ));
        assert_eq!(unknown_key("a\n\u{1b}[2J", &["b"]), "unknown key `a\\n\\u{1b}[2J`: expected b");
    }

    #[test]
    fn unknown_fields_are_keys() {
        let field = |list: &str| unknown_field(&format!("unknown field `nmae`, expected {list}"));
        let suggestion = Some("unknown key `nmae`: did you mean `name`?".to_owned());
        assert_eq!(field("one of `in`, `name`, `out`"), suggestion);
        assert_eq!(field("`in` or `name`"), suggestion);
        assert_eq!(field("`in` or `out`").as_deref(), Some("unknown key `nmae`: expected in, out"));
        assert_eq!(unknown_field("missing field `to`"), None);
        assert_eq!(unknown_field("unknown field `a`, there are no fields"), None);
        let quoted = unknown_field("unknown field `a`, expected `b`, expected `name`");
        assert_eq!(quoted.as_deref(), Some("unknown key `a`, expected `b`: expected name"));
    }
}

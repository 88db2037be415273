//! Value parsers of options.

use std::num::NonZeroUsize;
use std::time::Duration;

use bytesize::ByteSize;
use http::uri::Scheme;
use http::{HeaderValue, Uri};
use wirepath_auth::{Access, FolderUsers};
pub(crate) use wirepath_net::program::{listen_address, threads};
use wirepath_server::{
    ArchiveOptions, Disposition, FolderBurst, FolderCacheControl, FolderDisposition, HotMemorySize,
    LiveChannelOptions, NamePattern, TimeZone,
};

/// Minimum size of a cache. A smaller size is probably a forgotten unit.
const MIN_CACHE: ByteSize = ByteSize::kib(64);

/// Minimum memory for packings: the maximum that a single packing needs.
const MIN_PACKING_MEMORY: ByteSize = ByteSize::mib(4);

/// Minimum rate. A smaller rate is probably a forgotten unit.
const MIN_RATE: ByteSize = ByteSize::kib(64);

/// Valid lengths of bursts.
const BURSTS: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(500);

pub(crate) fn positive_time(text: &str) -> Result<Duration, String> {
    match time(text)? {
        Duration::ZERO => Err("expected a time above 0, such as 500ms or 5s".to_owned()),
        time => Ok(time),
    }
}

pub(crate) fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "expected a time with its unit, such as 500ms or 5s".to_owned())
}

/// Length of bursts, as an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BurstOption {
    /// The length depends on the number of sessions.
    Auto,
    /// The length is fixed.
    Time(Duration),
}

pub(crate) fn burst(text: &str) -> Result<BurstOption, String> {
    match text {
        "auto" => Ok(BurstOption::Auto),
        text => burst_time(text).map(BurstOption::Time).map_err(|expected| format!("{expected}, or auto")),
    }
}

pub(crate) fn burst_time(text: &str) -> Result<Duration, String> {
    let burst = time(text).ok().filter(|burst| BURSTS.contains(burst));
    burst.ok_or_else(|| "expected a time from 1ms to 500ms".to_owned())
}

/// Parses `PATH=TIME`, the longest burst of a folder. The path may contain `=`, since a time does not.
pub(crate) fn folder_burst(text: &str) -> Result<FolderBurst, String> {
    let Some((path, time)) = text.rsplit_once('=') else {
        return Err("expected PATH=TIME, such as cameras=20ms".to_owned());
    };
    let most_us = burst_time(time)?.as_micros() as u64;
    Ok(FolderBurst { path: path.trim_matches('/').to_owned(), most_us })
}

/// Parses `PATH` or `PATH=PATTERN`, an archive in UTC. The path cannot contain `=`.
pub(crate) fn archive(text: &str) -> Result<ArchiveOptions, String> {
    let (path, pattern) = text.split_once('=').unwrap_or((text, NamePattern::USUAL));
    let pattern = NamePattern::parse(pattern, TimeZone::Utc).map_err(|error| error.to_string())?;
    let path = path.trim_matches('/');
    if path.split('/').any(|name| name.starts_with('.')) {
        return Err("expected PATH[=PATTERN], the path of a folder in URLs, such as cams/door".to_owned());
    }
    Ok(ArchiveOptions { path: path.to_owned(), pattern })
}

/// Parses `NAME=PLAYLIST`, a channel. The name cannot contain `=`.
pub(crate) fn channel(text: &str) -> Result<LiveChannelOptions, String> {
    let expected = || "expected NAME=PLAYLIST, such as news=/srv/news.m3u".to_owned();
    let (name, playlist) = text.split_once('=').ok_or_else(expected)?;
    let name = name.trim_matches('/');
    let is_invalid = |part: &str| part.is_empty() || part.starts_with('.') || part.contains(char::is_control);
    if playlist.is_empty() || name.split('/').any(is_invalid) {
        return Err(expected());
    }
    Ok(LiveChannelOptions { name: name.to_owned(), playlist: playlist.into() })
}

/// Parses `PATH=VALUE`, the `Cache-Control` header of a folder. The value may contain `=`, the path cannot.
pub(crate) fn folder_cache_control(text: &str) -> Result<FolderCacheControl, String> {
    let expected = || "expected PATH=VALUE, such as live=no-store or =max-age=3600".to_owned();
    let (path, value) =
        text.split_once('=').filter(|(_, value)| !value.trim().is_empty()).ok_or_else(expected)?;
    let value = HeaderValue::from_str(value.trim()).map_err(|_| expected())?;
    Ok(FolderCacheControl { path: path.trim_matches('/').to_owned(), value })
}

/// Parses `PATH=HOW`, the `Content-Disposition` header of a folder. The path may contain `=`.
pub(crate) fn folder_disposition(text: &str) -> Result<FolderDisposition, String> {
    let expected = || "expected PATH=attachment or PATH=inline, such as recordings=attachment".to_owned();
    let (path, how) = text.rsplit_once('=').ok_or_else(expected)?;
    let disposition = match how.trim() {
        "attachment" => Disposition::Attachment,
        "inline" => Disposition::Inline,
        _ => return Err(expected()),
    };
    Ok(FolderDisposition { path: path.trim_matches('/').to_owned(), disposition })
}

/// Parses an origin as sent by browsers (RFC 6454 section 6.2), or `*`.
pub(crate) fn origin(text: &str) -> Result<HeaderValue, String> {
    let is_origin = |text: &str| {
        let host = text.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"));
        host.is_some_and(|(_, host)| !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ']))
    };
    let origin = text.to_ascii_lowercase();
    // Browsers omit the default port.
    let port = if origin.starts_with("https:") { ":443" } else { ":80" };
    let origin = origin.strip_suffix(port).unwrap_or(&origin);
    let valid = (origin == "*" || is_origin(origin)).then(|| HeaderValue::from_str(origin).ok()).flatten();
    valid.ok_or_else(|| "expected *, or an origin without a path, such as https://example.com".to_owned())
}

/// Parses the URL of an authentication service, which is asked over HTTP.
pub(crate) fn callback_url(text: &str) -> Result<Uri, String> {
    let expected = || "expected a URL, such as http://127.0.0.1:9000/auth".to_owned();
    let url: Uri = text.parse().map_err(|_| expected())?;
    let is_http = [Some(&Scheme::HTTP), Some(&Scheme::HTTPS)].contains(&url.scheme());
    let authority = url.authority().filter(|_| is_http).ok_or_else(expected)?;
    if authority.as_str().contains('@') {
        return Err("a user in the URL is not sent: give the service a secret in the query".to_owned());
    }
    Ok(url)
}

/// Parses `PATH=USERS`, the users allowed in a folder. The path may contain `=`, since user names in rules do
/// not.
pub(crate) fn folder_users(text: &str) -> Result<FolderUsers, String> {
    let Some((path, users)) = text.rsplit_once('=') else {
        return Err("expected PATH=USERS, such as cameras=anna,bob".to_owned());
    };
    Ok(FolderUsers { path: path.to_owned(), access: access(users)? })
}

/// Parses user names separated by commas, `*` for any user, or `-` for everyone without a password.
pub(crate) fn access(text: &str) -> Result<Access, String> {
    match text {
        "*" => Ok(Access::AnyUser),
        "-" => Ok(Access::Public),
        names if names.split(',').any(|name| name.is_empty() || name == "*" || name == "-") => {
            Err("expected names of users, such as anna,bob; * for any user; - for no password".to_owned())
        }
        names => Ok(Access::Users(names.split(',').map(str::to_owned).collect())),
    }
}

/// Parses the users allowed to administer. `-` (everyone) is refused.
pub(crate) fn administrators(text: &str) -> Result<Access, String> {
    match access(text)? {
        Access::Public => Err("expected names of users, such as anna,bob; or * for any user".to_owned()),
        users => Ok(users),
    }
}

/// Parses a percentage from 0% to 100%. Returns a share from 0 to 1.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| "expected a share from 0% to 100%".to_owned())
}

pub(crate) fn positive_count(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "expected a whole number above 0")
}

/// Parses the size of a cache; without a unit, in bytes.
pub(crate) fn cache_size(text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>() {
        Ok(size) if size >= MIN_CACHE => Ok(size),
        Ok(size) => Err(format!("{size} is too small: expected at least {MIN_CACHE}")),
        Err(_) => Err("expected a size, such as 500MB or 20GiB".to_owned()),
    }
}

/// Parses the size of hot memory: `auto`, or bytes.
pub(crate) fn hot_memory(text: &str) -> Result<HotMemorySize, String> {
    match text.parse::<ByteSize>() {
        _ if text == "auto" => Ok(HotMemorySize::Automatic),
        Ok(size) if size.as_u64() == 0 => Ok(HotMemorySize::Off),
        Ok(size) => Ok(HotMemorySize::Bytes(size.as_u64())),
        Err(_) => Err("expected auto, or a size, such as 8GiB; 0 for none".to_owned()),
    }
}

/// Parses the memory for packings.
pub(crate) fn packing_memory(text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>() {
        Ok(size) if size >= MIN_PACKING_MEMORY => Ok(size),
        Ok(size) => Err(format!("{size} is too small: expected at least {MIN_PACKING_MEMORY}")),
        Err(_) => Err("expected a size, such as 16MiB or 1GiB".to_owned()),
    }
}

/// Parses the rate of background work, in bytes per second.
pub(crate) fn rate(text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>() {
        Ok(size) if size >= MIN_RATE => Ok(size),
        Ok(size) => Err(format!("{size} is too small: expected at least {MIN_RATE}")),
        Err(_) => Err("expected a size, such as 500KB or 64MiB".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_values_are_refused_with_what_is_expected() {
        assert_eq!(positive_count("2").map(NonZeroUsize::get), Ok(2));
        for text in ["0", "-1", "many", "1.5", ""] {
            assert_eq!(positive_count(text), Err("expected a whole number above 0"));
        }
        assert_eq!(positive_time("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(positive_time("0s"), Err("expected a time above 0, such as 500ms or 5s".to_owned()));
        assert!(positive_time("soon").is_err());
        assert_eq!(burst("20ms"), Ok(BurstOption::Time(Duration::from_millis(20))));
        assert_eq!(burst("auto"), Ok(BurstOption::Auto));
        for text in ["2", "2s", "0ms", "soon"] {
            assert_eq!(burst(text), Err("expected a time from 1ms to 500ms, or auto".to_owned()));
            assert_eq!(burst_time(text), Err("expected a time from 1ms to 500ms".to_owned()));
        }
        assert_eq!(percent("15%"), Ok(0.15));
        for text in ["15", "-1%", "101%", "NaN%", "%", ""] {
            assert_eq!(percent(text), Err("expected a share from 0% to 100%".to_owned()));
        }
        for text in ["0", "many", "1025"] {
            assert_eq!(threads(text), Err("expected a whole number from 1 to 1024".to_owned()));
        }
        assert_eq!(threads("1024").map(NonZeroUsize::get), Ok(1024));
        assert_eq!(cache_size("lots"), Err("expected a size, such as 500MB or 20GiB".to_owned()));
        assert_eq!(cache_size("5GB"), Ok(ByteSize::gb(5)));
        assert_eq!(cache_size("10"), Err("10 B is too small: expected at least 64.0 KiB".to_owned()));
    }

    #[test]
    fn rules_name_users_or_say_any_or_none() {
        let rule = |text| folder_users(text).map(|rule| (rule.path, rule.access));
        let named = Access::Users(vec!["anna".to_owned(), "bob".to_owned()]);
        assert_eq!(rule("/cams/=anna,bob"), Ok(("/cams/".to_owned(), named)));
        assert_eq!(rule("a=b=*"), Ok(("a=b".to_owned(), Access::AnyUser)));
        assert_eq!(rule("/=-"), Ok(("/".to_owned(), Access::Public)));
        assert_eq!(rule("cams"), Err("expected PATH=USERS, such as cameras=anna,bob".to_owned()));
        for text in ["cams=", "cams=anna,", "cams=*,anna", "cams=-,anna"] {
            assert!(rule(text).is_err_and(|error| error.contains("expected names of users")), "{text}");
        }
    }

    #[test]
    fn channels_have_a_name_and_a_list() {
        let parsed = |text| channel(text).map(|channel| (channel.name, channel.playlist));
        assert_eq!(parsed("/tv/news/=a=b.m3u"), Ok(("tv/news".to_owned(), "a=b.m3u".into())));
        for text in ["", "news", "news=", "=a.m3u", "/=a.m3u", "../x=a.m3u", "a//b=a.m3u", "a\nb=a.m3u"] {
            assert!(parsed(text).unwrap_err().contains("NAME=PLAYLIST"), "{text}");
        }
    }

    #[test]
    fn archives_have_a_pattern() {
        let parsed = |text| archive(text).map(|archive| (archive.path, archive.pattern.to_string()));
        let expected = |path: &str, pattern: &str| Ok((path.to_owned(), pattern.to_owned()));
        assert_eq!(parsed("/cams/door/"), expected("cams/door", NamePattern::USUAL));
        assert_eq!(parsed("cam=%s"), expected("cam", "%s"));
        assert!(parsed("cam=%H").is_err_and(|error| error.contains("names would have no time")));
        assert!(parsed("../cam").is_err_and(|error| error.contains("expected PATH")));
    }

    #[test]
    fn dispositions_are_two() {
        let rule = |text| folder_disposition(text).map(|rule| (rule.path, rule.disposition));
        assert_eq!(rule("/cam/=attachment"), Ok(("cam".to_owned(), Disposition::Attachment)));
        assert_eq!(rule("a=b=inline"), Ok(("a=b".to_owned(), Disposition::Inline)));
        assert_eq!(rule("=inline"), Ok((String::new(), Disposition::Inline)));
        for text in ["cam", "cam=", "cam=store", "cam=attachment; filename=x"] {
            assert!(rule(text).is_err_and(|error| error.contains("expected PATH=attachment")), "{text}");
        }
    }

    #[test]
    fn fields_of_responses_are_checked() {
        let rule = |text| folder_cache_control(text).map(|rule| (rule.path, rule.value));
        let expected = |path: &str, value| Ok((path.to_owned(), HeaderValue::from_static(value)));
        assert_eq!(rule("/live/=no-store"), expected("live", "no-store"));
        assert_eq!(rule("=max-age=60, public"), expected("", "max-age=60, public"));
        for text in ["no-store", "live=", "live= ", "live=a\nb"] {
            assert!(rule(text).is_err_and(|error| error.contains("expected PATH=VALUE")), "{text}");
        }
        for text in ["*", "https://a.example", "http://localhost:3000", "HTTPS://A.example"] {
            assert!(origin(text).is_ok_and(|origin| origin == text.to_lowercase()), "{text}");
        }
        for (text, sent) in [
            ("https://a.example:443", "https://a.example"),
            ("http://[::1]:80", "http://[::1]"),
            ("http://a.example:443", "http://a.example:443"),
            ("http://[2001:db8::80]", "http://[2001:db8::80]"),
        ] {
            assert_eq!(origin(text).unwrap(), sent);
        }
        for text in ["", "a.example", "https://", "https://a/", "ftp://a", "https://a b"] {
            assert!(origin(text).is_err_and(|error| error.contains("expected *, or an origin")), "{text}");
        }
    }

    #[test]
    fn callbacks_are_urls_of_http() {
        for text in ["http://127.0.0.1:9000/auth", "https://auth.example/?secret=x", "http://[::1]:9000"] {
            assert!(callback_url(text).is_ok_and(|url| url == text), "{text}");
        }
        for text in ["", "127.0.0.1:9000", "/auth", "ftp://a/", "http://", "http://a b/"] {
            assert!(callback_url(text).is_err_and(|error| error.contains("expected a URL")), "{text}");
        }
        assert!(callback_url("http://a:b@c/").is_err_and(|error| error.contains("a secret in the query")));
    }

    /// Promise: A listener's address is `ADDRESS:PORT`, `NAME:PORT` or `:PORT`.
    #[test]
    fn listeners_have_hosts_or_none() {
        let shown = |text| listen_address(text).map(|address| address.to_string());
        assert_eq!(shown("127.0.0.1:80"), Ok("127.0.0.1:80".to_owned()));
        assert_eq!(shown("[::1]:80"), Ok("[::1]:80".to_owned()));
        assert_eq!(shown("localhost:80"), Ok("127.0.0.1:80".to_owned()));
        assert!(["[::]:80", "0.0.0.0:80"].contains(&shown(":80").unwrap().as_str()));
        for text in ["80", "localhost", "a:http", "127.0.0.1:65536"] {
            assert!(shown(text).is_err_and(|error| error.starts_with("expected ADDRESS:PORT")), "{text}");
        }
        assert!(shown("::1:80").is_err_and(|error| error.contains("needs brackets")));
    }
}

//! How often the head of an answer is read that comes in pieces.

/// How much of a head has been looked at: an origin that sends it in drops does not have it read from its
/// beginning for each.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Up to where its end was looked for.
    searched: usize,
    /// How much there was when it was read last.
    read: usize,
}

impl Looked {
    /// Returns whether an end has come, or twice as much as when it was read last, in which a mistake is
    /// found before the end comes.
    pub(super) fn is_worth_reading(&mut self, bytes: &[u8]) -> bool {
        // An empty line ends it; the line before that may have ended before.
        let unsearched = &bytes[self.searched.saturating_sub(2)..];
        let has_end = unsearched.windows(2).any(|pair| pair == b"\n\n")
            || unsearched.windows(3).any(|three| three == b"\n\r\n");
        self.searched = bytes.len();
        let is_worth_it = has_end || bytes.len() >= (2 * self.read).max(1);
        if is_worth_it {
            self.read = bytes.len();
        }
        is_worth_it
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::cache::head::OriginResponse;
    use crate::cache::origin::HEAD_LIMIT;

    /// Promise: An answer whose head arrives byte by byte is read rarely, and passed on.
    ///
    /// However it drips, and whatever is in it, a head is read as often as it doubles, and when its end is
    /// there.
    #[test]
    fn a_head_that_drips_is_read_hardly_ever() {
        for end in ["\r\n\r\n", "\n\n"] {
            let head = format!("HTTP/1.1 200 OK\r\nX: {}{end}", "x".repeat(HEAD_LIMIT - 100));
            let (mut looked, mut reads, mut response) = (Looked::default(), 0, None);
            for length in 1..=head.len() {
                assert!(response.is_none(), "it was whole before its end");
                let so_far = &head.as_bytes()[..length];
                if looked.is_worth_reading(so_far) {
                    reads += 1;
                    response = OriginResponse::read(so_far, &Method::GET).unwrap();
                }
            }
            assert_eq!(response.unwrap().1, head.len());
            assert!(reads <= 18, "it was read {reads} times");
        }
    }
}

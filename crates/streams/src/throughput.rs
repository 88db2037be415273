/// Throughput: an exponentially weighted moving average of bytes. A byte of a second ago has the weight 1/e.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Throughput {
    bytes: f64,
    at_us: u64,
}

impl Throughput {
    pub(crate) fn add(&mut self, bytes: usize, now_us: u64) {
        self.bytes = self.bytes_per_second(now_us) + bytes as f64;
        self.at_us = now_us;
    }

    /// Bytes per second; each byte counts for about a second.
    pub(crate) fn bytes_per_second(&self, now_us: u64) -> f64 {
        let past_s = now_us.saturating_sub(self.at_us) as f64 / 1e6;
        self.bytes * (-past_s).exp()
    }

    /// Estimated time in seconds to send the waiting bytes, for comparing outputs.
    pub(crate) fn wait_s(&self, waiting: usize, now_us: u64) -> f64 {
        waiting as f64 / (self.bytes_per_second(now_us) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: With the pattern `capacity`, an output that drops records gets none while others have room.
    #[test]
    fn an_output_that_took_more_of_late_waits_less() {
        let (mut fast, mut slow) = (Throughput::default(), Throughput::default());
        fast.add(1_000_000, 1_000_000);
        slow.add(1_000_000, 1_000_000);
        let now_us = 3_000_000;
        fast.add(1_000_000, now_us);
        assert!(
            fast.wait_s(1000, now_us) < slow.wait_s(1000, now_us),
            "what is old counts less, added to or not"
        );
        assert!(fast.wait_s(1000, now_us) > slow.wait_s(0, now_us));
        assert!(slow.wait_s(1000, 1_000_000) < slow.wait_s(1000, now_us));
    }
}

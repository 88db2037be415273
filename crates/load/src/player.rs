//! Model of a player with a buffer, which detects underruns.

/// Player that starts when it has `buffer_us` of media, by the media clock, and restarts in the same way
/// after each underrun.
#[derive(Clone, Debug)]
pub(crate) struct Player {
    buffer_us: i64,
    /// Playing time minus media time; `None` before the first packet.
    offset_us: Option<i64>,
    /// End of the received media, in media time.
    end_us: i64,
    /// Number of times that the buffer ran dry.
    pub(crate) underruns: u64,
    /// Time that the player waited for media, without the time to refill its buffer.
    pub(crate) stalled_us: i64,
}

impl Player {
    pub(crate) fn new(buffer_us: i64) -> Player {
        Player { buffer_us, offset_us: None, end_us: i64::MIN, underruns: 0, stalled_us: 0 }
    }

    /// Notes a packet that is not a duplicate. Returns whether the buffer had run dry before.
    pub(crate) fn packet(&mut self, media_us: i64, arrival_us: i64) -> bool {
        self.end_us = self.end_us.max(media_us);
        let offset = *self.offset_us.get_or_insert(arrival_us - media_us + self.buffer_us);
        let late_us = arrival_us - (media_us + offset);
        if late_us <= 0 {
            return false;
        }
        self.stall(late_us);
        true
    }

    /// Notes that media up to this time were received.
    pub(crate) fn extend(&mut self, media_us: i64) {
        self.end_us = self.end_us.max(media_us);
    }

    /// Duration of received media that are not played yet; 0 before the first packet.
    pub(crate) fn ahead_us(&self, now_us: i64) -> i64 {
        self.offset_us.map_or(0, |offset| self.end_us.saturating_add(offset).saturating_sub(now_us))
    }

    /// Notes that sending stopped at this time, before the end of the media: the media that the player waits
    /// for will not arrive.
    pub(crate) fn cut(&mut self, now_us: i64) {
        if let Some(offset) = self.offset_us
            && now_us > self.end_us.saturating_add(offset)
        {
            self.stall(now_us - (self.end_us + offset));
        }
    }

    /// Empties the buffer: the next packet starts another playback.
    pub(crate) fn rewind(&mut self) {
        (self.offset_us, self.end_us) = (None, i64::MIN);
    }

    /// Forgets all underruns until now. The time that the player waited remains as its buffer.
    pub(crate) fn forgive(&mut self) {
        (self.underruns, self.stalled_us) = (0, 0);
    }

    fn stall(&mut self, late_us: i64) {
        self.underruns += 1;
        self.stalled_us += late_us;
        // The player refills its buffer before it continues.
        self.offset_us = self.offset_us.map(|offset| offset + late_us + self.buffer_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn player() -> Player {
        Player::new(200_000)
    }

    /// Promise: A session is timely if a player with the requested buffer never ran dry.
    #[test]
    fn what_arrives_within_the_buffer_is_in_time() {
        let mut player = player();
        assert!(!player.packet(0, 1_000_000));
        assert!(!player.packet(20_000, 1_220_000));
        assert!(!player.packet(1_000_000, 1_000_000));
        assert_eq!((player.underruns, player.stalled_us), (0, 0));
    }

    #[test]
    fn media_ahead_are_what_is_not_played() {
        let mut player = player();
        assert_eq!(player.ahead_us(5), 0);
        player.packet(0, 1_000_000);
        player.extend(2_000_000);
        assert_eq!(player.ahead_us(1_000_000), 2_200_000);
        player.cut(3_200_000);
        assert_eq!((player.ahead_us(3_200_000), player.underruns), (0, 0));
    }

    #[test]
    fn a_stall_counts_once_and_moves_the_clock() {
        let mut player = player();
        player.packet(0, 0);
        assert!(player.packet(100_000, 301_000));
        assert_eq!((player.underruns, player.stalled_us), (1, 1_000));
        // The player has a buffer of 200 ms again.
        assert!(!player.packet(120_000, 521_000));
        assert!(player.packet(140_000, 541_001));
        assert_eq!((player.underruns, player.stalled_us), (2, 1_001));
    }

    #[test]
    fn silence_at_the_end_is_a_stall_once_the_buffer_is_dry() {
        let mut player = player();
        player.cut(10_000_000);
        player.packet(0, 0);
        player.packet(500_000, 450_000);
        player.cut(700_000);
        assert_eq!(player.underruns, 0);
        player.cut(700_001);
        assert_eq!((player.underruns, player.stalled_us), (1, 1));
    }
}

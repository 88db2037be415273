//! Overviews: reduced forms of a picture that its file has, too.

use crate::picture::PictureError;

/// A reduced form of a picture, in the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overview {
    /// Pixels of the picture, across and down, for one of the overview; at least 2.
    pub factor: u32,
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Place of its directory in the file.
    pub(crate) directory: u64,
}

/// The overviews of a picture.
#[derive(Debug, Default)]
pub struct Overviews {
    /// Those whose directories can be read, in the order of the file.
    pub usable: Vec<Overview>,
    /// Those that are left out.
    pub damaged: Vec<DamagedOverview>,
}

/// An overview that cannot be read. Others of the picture are not affected, unless only it leads to them.
#[derive(Debug)]
pub struct DamagedOverview {
    /// Place in the file of its directory, or of the link in another directory that leads to none.
    pub at: u64,
    /// Why it cannot be read.
    pub error: PictureError,
}

impl Overviews {
    /// Leaves out an overview that was found, and cannot be read for this reason.
    ///
    /// # Errors
    /// The reason itself, if it is one of reading the file ([`PictureError::Read`]).
    pub fn leave_out(&mut self, overview: &Overview, error: PictureError) -> Result<(), PictureError> {
        self.usable.retain(|other| other.directory != overview.directory);
        self.add_damaged(overview.directory, error)
    }

    /// Adds one that cannot be read for this reason, unless the file itself cannot.
    pub(crate) fn add_damaged(&mut self, at: u64, error: PictureError) -> Result<(), PictureError> {
        if let PictureError::Read(_) = error {
            return Err(error);
        }
        self.damaged.push(DamagedOverview { at, error });
        Ok(())
    }
}

impl Overview {
    /// The overview of this size of a picture of `full` size, if both sides are those of the picture divided by
    /// one whole number, rounded up or down.
    pub(crate) fn new(full: (u32, u32), (width, height): (u32, u32), directory: u64) -> Option<Overview> {
        let sides = [(full.0, width), (full.1, height)];
        let fits = |factor: u32| {
            let fits = |(full, reduced): (u32, u32)| {
                reduced == full.div_ceil(factor) || reduced == (full / factor).max(1)
            };
            factor > 1 && sides.into_iter().all(fits)
        };
        // The longer side tells the number more exactly. Powers of two are usual.
        let (full, reduced) = sides.into_iter().max_by_key(|(full, _)| *full)?;
        let ratio = (full + reduced / 2) / reduced;
        let power = ratio.next_power_of_two();
        let factor = [power, power / 2, ratio].into_iter().find(|&factor| fits(factor))?;
        Some(Overview { factor, width, height, directory })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factor(full: (u32, u32), reduced: (u32, u32)) -> Option<u32> {
        Overview::new(full, reduced, 8).map(|overview| overview.factor)
    }

    #[test]
    fn the_factor_is_a_whole_number() {
        assert_eq!(factor((1000, 700), (500, 350)), Some(2));
        assert_eq!(factor((1001, 701), (501, 351)), Some(2), "rounded up");
        assert_eq!(factor((1001, 701), (500, 350)), Some(2), "rounded down");
        assert_eq!(factor((1000, 700), (8, 6)), Some(128), "not 125");
        assert_eq!(factor((1000, 700), (334, 234)), Some(3));
        assert_eq!(factor((40, 9000), (1, 36)), Some(256), "at least a pixel");
        assert_eq!(factor((1 << 28, 1 << 28), (1, 1)), Some(1 << 28));
        for other in [(1000, 700), (2000, 1400), (500, 349), (500, 352), (160, 120), (1000, 350), (999, 699)]
        {
            assert_eq!(factor((1000, 700), other), None, "{other:?}");
        }
    }
}

//! Queries: the part of a picture that a client wants, and its form.
//!
//! `crop=X,Y,WIDTH,HEIGHT`, `gray`, `scale=P/Q` with `method=integral|middle|linear`. They apply in this order,
//! however they are written: crop, gray, scale. `overviews` permits an overview of the file as the source.

use percent_encoding::percent_decode_str;

use crate::overview::Overview;
use crate::picture::Rectangle;

/// Largest number of a ratio.
const MOST: u32 = 65_536;

/// Request for a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The file as it is.
    Whole,
    /// The page that shows it.
    View,
    /// Its size and samples, as JSON.
    Information,
    /// A picture that is made of it.
    Transformed(Transformation),
}

/// Steps from a picture to an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transformation {
    /// The part that is taken.
    pub crop: Option<Rectangle>,
    /// Colours become gray.
    pub gray: bool,
    /// It becomes smaller.
    pub scale: Option<Scale>,
    /// The smaller picture may be made from an overview of the file.
    pub overviews: bool,
}

/// A smaller picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Its width and height.
    pub ratio: Ratio,
    /// The pixels that it takes.
    pub method: Method,
}

/// A fraction from above 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// At least 1.
    pub numerator: u32,
    /// At least the numerator.
    pub denominator: u32,
}

/// The three ways of down-sampling of the KStreams paper (section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// I: the mean of each square of `N` times `N` pixels.
    Integral,
    /// II: the middle pixel of each neighbourhood.
    Middle,
    /// III: linear interpolation at the middle of each neighbourhood.
    Linear,
}

/// A query that cannot be understood. The client's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// A key that does not exist.
    #[error("unknown parameter {0}: expected crop, gray, scale, method, overviews, view or info")]
    Unknown(String),
    /// A key that is there twice.
    #[error("{0} is given twice; give it once")]
    Twice(&'static str),
    /// A value that cannot be read.
    #[error("invalid {key}: expected {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// Form of the value.
        expected: &'static str,
    },
    /// `view` or `info` beside others.
    #[error("{0} stands alone; leave out the other parameters")]
    Alone(&'static str),
    /// A method without a scale, or the other way around.
    #[error("scale and method belong together; give both, as in scale=1/2&method=integral")]
    Incomplete,
    /// Overviews without a scale.
    #[error("overviews needs a scale; give both, as in scale=1/8&method=integral&overviews")]
    NotScaled,
    /// A ratio that the method does not have.
    #[error("method=integral needs scale=1/N; use middle or linear")]
    NotIntegral,
}

impl Question {
    /// Reads a query.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub fn parse(query: &str) -> Result<Question, QueryError> {
        let mut read = Read::default();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = percent_decode_str(value).decode_utf8_lossy();
            read.parameter(key, &value)?;
        }
        read.question()
    }
}

/// The parameters so far.
#[derive(Default)]
struct Read {
    crop: Option<Rectangle>,
    gray: Option<()>,
    ratio: Option<Ratio>,
    method: Option<Method>,
    overviews: Option<()>,
    view: Option<()>,
    information: Option<()>,
}

impl Read {
    fn parameter(&mut self, key: &str, value: &str) -> Result<(), QueryError> {
        match key {
            "crop" => set(&mut self.crop, "crop", crop(value), "X,Y,WIDTH,HEIGHT in pixels"),
            "gray" => set(&mut self.gray, "gray", none(value), "no value"),
            "scale" => set(&mut self.ratio, "scale", ratio(value), "P/Q with 1 <= P <= Q <= 65536"),
            "method" => set(&mut self.method, "method", method(value), "integral, middle or linear"),
            "overviews" => set(&mut self.overviews, "overviews", none(value), "no value"),
            "view" => set(&mut self.view, "view", none(value), "no value"),
            "info" => set(&mut self.information, "info", none(value), "no value"),
            _ => Err(QueryError::Unknown(key.chars().take(40).filter(|c| !c.is_control()).collect())),
        }
    }

    fn question(self) -> Result<Question, QueryError> {
        let Read { crop, gray, ratio, method, overviews, view, information } = self;
        let scale = match (ratio, method) {
            (None, None) => None,
            (Some(Ratio { numerator: 2.., .. }), Some(Method::Integral)) => {
                return Err(QueryError::NotIntegral);
            }
            (Some(ratio), Some(method)) => Some(Scale { ratio, method }),
            _ => return Err(QueryError::Incomplete),
        };
        if overviews.is_some() && scale.is_none() {
            return Err(QueryError::NotScaled);
        }
        let made = Transformation { crop, gray: gray.is_some(), scale, overviews: overviews.is_some() };
        match (view, information, made == Transformation::default()) {
            (None, None, true) => Ok(Question::Whole),
            (None, None, false) => Ok(Question::Transformed(made)),
            (Some(()), None, true) => Ok(Question::View),
            (None, Some(()), true) => Ok(Question::Information),
            (Some(()), ..) => Err(QueryError::Alone("view")),
            (None, Some(()), false) => Err(QueryError::Alone("info")),
        }
    }
}

fn set<T>(
    to: &mut Option<T>,
    key: &'static str,
    value: Option<T>,
    expected: &'static str,
) -> Result<(), QueryError> {
    if to.is_some() {
        return Err(QueryError::Twice(key));
    }
    *to = Some(value.ok_or(QueryError::Value { key, expected })?);
    Ok(())
}

fn none(value: &str) -> Option<()> {
    value.is_empty().then_some(())
}

fn crop(value: &str) -> Option<Rectangle> {
    let numbers = value.split(',').map(number).collect::<Option<Vec<u32>>>()?;
    let [x, y, width, height] = numbers[..] else { return None };
    Some(Rectangle { x, y, width, height })
}

/// A decimal number without a sign, which the standard library would take.
fn number(text: &str) -> Option<u32> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

fn ratio(value: &str) -> Option<Ratio> {
    let (numerator, denominator) = value.split_once('/')?;
    let (numerator, denominator) = (number(numerator)?, number(denominator)?);
    let is_valid = (1..=denominator).contains(&numerator) && denominator <= MOST;
    is_valid.then_some(Ratio { numerator, denominator })
}

fn method(value: &str) -> Option<Method> {
    match value {
        "integral" => Some(Method::Integral),
        "middle" => Some(Method::Middle),
        "linear" => Some(Method::Linear),
        _ => None,
    }
}

impl Ratio {
    /// A length in pixels by this ratio, rounded down, at least 1.
    pub fn of(self, pixels: u32) -> u32 {
        let scaled = u64::from(pixels) * u64::from(self.numerator) / u64::from(self.denominator);
        (scaled as u32).max(1)
    }

    /// Ratio for a source that is smaller by `factor`; none if the source is smaller than the result.
    fn after(self, factor: u32) -> Option<Ratio> {
        let Ratio { numerator, denominator } = self;
        let numerator = numerator.checked_mul(factor).filter(|numerator| *numerator <= denominator)?;
        let is_whole = denominator % numerator == 0;
        Some(if is_whole {
            Ratio { numerator: 1, denominator: denominator / numerator }
        } else {
            Ratio { numerator, denominator }
        })
    }
}

impl Scale {
    /// Scale for an overview of this factor as the source. None if the overview has fewer pixels than the
    /// answer, or if the squares of [`Method::Integral`] are not squares of its pixels.
    pub(crate) fn after(self, factor: u32) -> Option<Scale> {
        let ratio = self.ratio.after(factor)?;
        let is_possible = self.method != Method::Integral || ratio.numerator == 1;
        is_possible.then_some(Scale { ratio, ..self })
    }
}

impl Transformation {
    /// The overview to make the answer from: the smallest that can be its source, if overviews are permitted.
    pub fn source<'a>(&self, overviews: &'a [Overview]) -> Option<&'a Overview> {
        let scale = self.scale.filter(|_| self.overviews)?;
        let usable = overviews.iter().filter(|overview| scale.after(overview.factor).is_some());
        usable.max_by_key(|overview| overview.factor)
    }

    /// Text that is the same for the same steps, for entity tags.
    pub fn tag(&self) -> String {
        let mut tag = String::new();
        if let Some(Rectangle { x, y, width, height }) = self.crop {
            tag += &format!("-c{x}.{y}.{width}.{height}");
        }
        if self.gray {
            tag += "-g";
        }
        if let Some(Scale { ratio: Ratio { numerator, denominator }, method }) = self.scale {
            tag += &format!("-s{numerator}.{denominator}.{}", method as u8);
        }
        if self.overviews {
            tag += "-o";
        }
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_queries() {
        assert_eq!(Question::parse(""), Ok(Question::Whole));
        assert_eq!(Question::parse("view"), Ok(Question::View));
        assert_eq!(Question::parse("info="), Ok(Question::Information));
        let crop = Some(Rectangle { x: 1, y: 2, width: 3, height: 4 });
        let scale = Some(Scale { ratio: Ratio { numerator: 2, denominator: 3 }, method: Method::Linear });
        let all = Question::Transformed(Transformation { crop, gray: true, scale, overviews: false });
        assert_eq!(Question::parse("method=linear&scale=2%2F3&gray&crop=1%2c2,3,4"), Ok(all));
        let smaller = Transformation { scale, overviews: true, ..Transformation::default() };
        assert_eq!(Question::parse("overviews&method=linear&scale=2/3"), Ok(Question::Transformed(smaller)));
        assert_eq!(smaller.tag(), "-s2.3.2-o");
    }

    /// Promise: An invalid query is answered with 400 and the reason.
    #[test]
    fn refuses_what_is_wrong() {
        for (query, words) in [
            ("crop=1,2,3", "invalid crop: expected X,Y,WIDTH,HEIGHT"),
            ("crop=1,2,3,-4", "invalid crop"),
            ("crop=1,2,3,+4", "invalid crop"),
            ("crop=1,2,3,4,5", "invalid crop"),
            ("crop=1,2,3,99999999999", "invalid crop"),
            ("crop=1,2,3,4&crop=1,2,3,4", "crop is given twice"),
            ("gray=1", "invalid gray: expected no value"),
            ("scale=1/2", "scale and method belong together"),
            ("method=linear", "scale and method belong together"),
            ("scale=3/2&method=linear", "invalid scale"),
            ("scale=0/2&method=linear", "invalid scale"),
            ("scale=1/65537&method=linear", "invalid scale"),
            ("scale=2/3&method=integral", "method=integral needs scale=1/N"),
            ("scale=1/3&method=cubic", "invalid method: expected integral, middle or linear"),
            ("grey", "unknown parameter grey"),
            ("overviews", "overviews needs a scale"),
            ("overviews&crop=1,2,3,4", "overviews needs a scale"),
            ("overviews=2&scale=1/2&method=linear", "invalid overviews: expected no value"),
            ("view&gray", "view stands alone"),
            ("view&info", "view stands alone"),
            ("info&gray", "info stands alone"),
        ] {
            let error = Question::parse(query).expect_err(query).to_string();
            assert!(error.contains(words), "{query}: {error}");
        }
    }

    #[test]
    fn ratios_round_down_and_leave_something() {
        let third = Ratio { numerator: 1, denominator: 3 };
        assert_eq!([1, 2, 3, 8, 9].map(|pixels| third.of(pixels)), [1, 1, 1, 2, 3]);
    }
    #[test]
    fn the_smallest_overview_that_can_be_the_source_is_chosen() {
        let overview = |factor| Overview { factor, width: 1, height: 1, directory: 8 };
        let overviews = [2, 4, 8, 3].map(overview);
        let chosen = |numerator, denominator, method| {
            let scale = Some(Scale { ratio: Ratio { numerator, denominator }, method });
            let steps = Transformation { scale, overviews: true, ..Transformation::default() };
            assert_eq!(Transformation { overviews: false, ..steps }.source(&overviews), None);
            steps.source(&overviews).map(|overview| overview.factor)
        };
        let expected =
            [(1, None), (2, Some(2)), (5, None), (6, Some(3)), (7, None), (12, Some(4)), (1000, Some(8))];
        for (side, factor) in expected {
            assert_eq!(chosen(1, side, Method::Integral), factor, "squares of {side}");
        }
        for method in [Method::Middle, Method::Linear] {
            let expected =
                [((1, 1), None), ((2, 3), None), ((1, 2), Some(2)), ((2, 7), Some(3)), ((1, 7), Some(4))];
            for ((numerator, denominator), factor) in expected {
                assert_eq!(chosen(numerator, denominator, method), factor, "{numerator}/{denominator}");
            }
        }
        let half = Scale { ratio: Ratio { numerator: 2, denominator: 7 }, method: Method::Middle };
        assert_eq!(half.after(3).map(|left| left.ratio), Some(Ratio { numerator: 6, denominator: 7 }));
        assert_eq!(half.after(4), None);
        assert_eq!(half.after(1 << 31), None, "a product of more than 32 bits");
    }
}

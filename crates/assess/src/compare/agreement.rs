//! Agreement of two results on relative figures: absolute times differ between machines and kernels, ratios
//! of good measurements do not.

use std::collections::HashMap;

use serde::Serialize;

use crate::path_costs;
use crate::quantities::{COPIED_SEND, LENT_SEND, Name};
use crate::result::{Assessment, PathVariant};
use crate::statistics::Summary;

/// Relative figures agree if the larger exceeds the smaller by no more than this share.
pub const AGREEMENT: f64 = 0.10;

/// Relative figure of both results.
#[derive(Clone, Debug, Serialize)]
pub struct Agreement {
    /// Name of the figure.
    #[serde(flatten)]
    pub name: Name,
    /// Path or send that the figure is relative to, with the same transport, MTU and size.
    pub relative_to: String,
    /// First result.
    pub first: f64,
    /// Second result.
    pub second: f64,
    /// Excess of the larger over the smaller, as a share.
    pub apart: f64,
    /// True if the excess is no more than [`AGREEMENT`].
    pub agree: bool,
    /// True if a figure of the ratio is noisy in one of the results.
    pub noisy: bool,
}

/// Relative figure of one result.
struct Relative {
    name: Name,
    to: String,
    ratio: f64,
    noisy: bool,
}

/// Relative figures that both results have.
pub(super) fn agreements(first: &Assessment, second: &Assessment) -> Vec<Agreement> {
    let of_second = relatives(second);
    let others: HashMap<(&Name, &str), &Relative> =
        of_second.iter().map(|relative| ((&relative.name, relative.to.as_str()), relative)).collect();
    let agreement = |one: &Relative| {
        let other = *others.get(&(&one.name, one.to.as_str()))?;
        let apart = one.ratio.max(other.ratio) / one.ratio.min(other.ratio) - 1.0;
        Some(Agreement {
            name: one.name.clone(),
            relative_to: one.to.clone(),
            first: one.ratio,
            second: other.ratio,
            apart,
            agree: apart <= AGREEMENT,
            noisy: one.noisy || other.noisy,
        })
    };
    relatives(first).iter().filter_map(agreement).collect()
}

/// Paths relative to the plain path of their experiment, and lending relative to copying.
fn relatives(assessment: &Assessment) -> Vec<Relative> {
    let mut relatives = Vec::new();
    for group in path_costs::groups(assessment) {
        let Some(plain) = group.experiment.baseline() else { continue };
        for cost in &group.costs {
            let Some(ratio) = group.relative(cost) else { continue };
            let base = group.find(PathVariant::plain(plain), cost.measurement.size);
            let name = Name::of(cost);
            let noisy = cost.is_noisy() || base.is_some_and(|base| base.is_noisy());
            relatives.push(Relative { name, to: plain.to_string(), ratio, noisy });
        }
    }
    for point in assessment.loan.iter().flat_map(|loan| &loan.points) {
        let summary = |runs: &[f64]| Summary::of(runs.iter().copied());
        let Some((lent, copied)) = summary(&point.lent_send_s).zip(summary(&point.copied_send_s)) else {
            continue;
        };
        let ratio = lent.median / copied.median;
        if ratio.is_finite() {
            let (name, to) = (Name::of_loan(point, LENT_SEND), Name::of_loan(point, COPIED_SEND).what);
            relatives.push(Relative { name, to, ratio, noisy: lent.is_noisy() || copied.is_noisy() });
        }
    }
    relatives
}

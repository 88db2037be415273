//! Figures that JSON cannot represent.

use super::{Assessment, Run, Shares};

impl Assessment {
    /// Name of a figure that is infinite or not a number. JSON writers would write null, which has another
    /// meaning.
    pub(super) fn not_finite(&self) -> Option<String> {
        let seconds = std::iter::once(("seconds".to_owned(), self.seconds));
        let costs = self.costs.iter().flat_map(|costs| {
            let entries = costs.kernel_entry_ns.iter().map(|ns| ("costs: kernel entry".to_owned(), *ns));
            let copies = costs.copies.iter().flat_map(|copy| {
                copy.ns.iter().map(|ns| (format!("costs: copies of {} bytes", copy.size), *ns))
            });
            entries.chain(copies)
        });
        let measurements = self.measurements.iter().flat_map(|one| {
            let runs = one
                .runs
                .iter()
                .flat_map(|Run { user_s, system_s, wall_s, .. }| [*user_s, *system_s, *wall_s]);
            let figures = runs.chain(one.calls_per_packet);
            figures
                .map(|figure| (format!("{} over {}, {:?} bytes", one.path, one.transport, one.size), figure))
        });
        let profiles = self.profiles.iter().flat_map(|profile| {
            let Shares { copying, entering, network, user, functions, .. } = &profile.shares;
            let shares = [*copying, *entering, *network, *user].into_iter();
            let figures = shares.chain(functions.iter().map(|function| function.share));
            figures.map(|figure| (format!("profile of {}", profile.path), figure))
        });
        let points = self.loan.iter().flat_map(|loan| &loan.points).flat_map(|point| {
            let runs = [
                &point.copy_s,
                &point.copied_send_s,
                &point.lent_send_s,
                &point.auto_send_s,
                &point.fragments_send_s,
                &point.spliced_send_s,
            ];
            let runs = runs.into_iter().flatten().copied();
            let ratios = [point.lent_to_copied, point.auto_to_best].into_iter().flatten();
            let ratios = ratios.flat_map(|ratio| [Some(ratio.median), ratio.lower, ratio.upper]).flatten();
            let figures = runs.chain([point.copied_throughput]).chain(point.lent_throughput).chain(ratios);
            figures.map(|figure| (format!("loan over {}, {} bytes", point.transport, point.size), figure))
        });
        let queue = self.loan.iter().flat_map(|loan| &loan.queue).flat_map(|point| {
            let figures = point.runs.iter().flat_map(|run| [run.cpu_s, run.wall_s]);
            figures.map(|figure| (format!("sends to a queue, {} bytes", point.size), figure))
        });
        let relays = self.relay.iter().flat_map(|cost| {
            let figures = cost.runs.iter().flat_map(|run| [run.user_s, run.system_s, run.wall_s]);
            figures.map(|figure| (format!("{}: {}", cost.case.part, cost.case.what()), figure))
        });
        let server = self.server.iter().flat_map(|server| {
            server.costs.iter().map(|cost| (format!("server: {}", cost.path), cost.cpu_ns_per_packet))
        });
        let mut figures = seconds
            .chain(costs)
            .chain(measurements)
            .chain(profiles)
            .chain(points)
            .chain(queue)
            .chain(relays)
            .chain(server);
        figures.find(|(_, figure)| !figure.is_finite()).map(|(what, figure)| format!("{what}: {figure}"))
    }
}

#[cfg(test)]
mod tests {
    use wirepath_datapath::calibration::{Calibration, DeviceKind, Host, PathCost};

    use crate::example;
    use crate::result::{Assessment, WriteError};

    /// Promise: A written result can be read back; a figure that is not a number is an error.
    #[test]
    fn what_json_has_no_word_for_is_an_error_and_everything_else_is_read_back() {
        let whole = example::full();
        assert_eq!(
            Assessment::from_json(&whole.to_json().unwrap()).unwrap().measurements.len(),
            whole.measurements.len()
        );
        let changes: [fn(&mut Assessment, f64); 11] = [
            |result, wrong| result.seconds = wrong,
            |result, wrong| result.costs.as_mut().unwrap().kernel_entry_ns[0] = wrong,
            |result, wrong| result.costs.as_mut().unwrap().copies[0].ns[0] = wrong,
            |result, wrong| result.measurements[0].runs[0].wall_s = wrong,
            |result, wrong| result.measurements[0].calls_per_packet = Some(wrong),
            |result, wrong| result.profiles[0].shares.functions[0].share = wrong,
            |result, wrong| result.relay[0].runs[0].system_s = wrong,
            |result, wrong| {
                let cost = PathCost {
                    path: "sendmmsg".to_owned(),
                    packets_per_train: 8,
                    own_headers: false,
                    cpu_ns_per_packet: wrong,
                };
                result.server = Some(Calibration {
                    host: Host::this(),
                    device: DeviceKind::WithChecksums,
                    mtu: 1500,
                    origin: "a test".to_owned(),
                    unix_s: 0,
                    costs: vec![cost],
                });
            },
            |result, wrong| result.loan.as_mut().unwrap().points[0].lent_throughput = Some(wrong),
            |result, wrong| result.loan.as_mut().unwrap().points[0].spliced_send_s = vec![wrong],
            |result, wrong| result.loan.as_mut().unwrap().queue[0].runs[0].cpu_s = wrong,
        ];
        for change in changes {
            for wrong in [f64::NAN, f64::INFINITY] {
                let mut result = example::full();
                change(&mut result, wrong);
                assert!(matches!(result.to_json(), Err(WriteError::NotFinite(_))));
            }
        }
    }
}

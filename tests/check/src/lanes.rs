//! Steps that run beside each other.

use std::sync::mpsc::channel;
use std::thread;

use crate::step::{Done, Step};

/// Steps that run one after another.
pub(crate) type Lane = Vec<Step>;

/// Runs lanes beside each other; `ended` gets each step as it ends.
pub(crate) fn run(lanes: Vec<Lane>, mut ended: impl FnMut(Done)) {
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        for lane in lanes {
            let sender = sender.clone();
            scope.spawn(move || {
                // Nobody stops receiving before the last sender is dropped.
                lane.iter().for_each(|step| drop(sender.send(step.run_quietly())));
            });
        }
        drop(sender);
        receiver.into_iter().for_each(&mut ended);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Count, command};

    #[test]
    fn lanes_run_beside_each_other_and_their_steps_in_order() {
        let folder = std::env::temp_dir().join(format!("wirepath-lanes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let shell = |name: &str, script: &str| {
            command(name, &["sh", "-c", script], Count::ExitCode, 1).inside(folder.clone())
        };
        // Each lane waits for the other.
        let lanes = vec![
            vec![shell("a", "mkfifo to-b; echo > to-b"), shell("b", "exit 1")],
            vec![shell("c", "until [ -p to-b ]; do :; done; cat to-b")],
        ];
        let mut names = Vec::new();
        run(lanes, |done| names.push((done.name, done.tally.failed)));
        std::fs::remove_dir_all(&folder).unwrap();
        let place = |name: &str| names.iter().position(|(other, _)| other == name).unwrap();
        assert!(place("a") < place("b") && names.len() == 3, "{names:?}");
        assert_eq!(names[place("b")].1, 1);
    }
}

//! Cost of the two operations that data paths try to avoid: kernel entry and copying (figure 2 of the
//! conference paper).
//!
//! Figures are processor time of the thread, as for data paths, so that other load on the machine does not
//! count.
//!
//! Each run measures all points, so that a disturbance of some seconds affects one run of each point and not
//! all runs of one point. The repetitions per point are calibrated before the first run, so that a point
//! takes at least `RUN` per run.

mod arena;
mod cold;

use std::hint::black_box;
use std::time::Duration;

use arena::Arena;
use rustix::time::{ClockId, clock_gettime};

pub(crate) use cold::ColdCopies;

use crate::result::{Assessment, CopyCost, Costs, LeftOut};
use crate::{Error, Options, Progress, Soundness, test_bed};

/// Smallest and largest copied block in bytes; all powers of two between them are measured.
const SMALLEST: usize = 8;
const LARGEST: usize = 32 << 20;

/// Minimum duration of a point's repetitions in a run. Reading the clock twice takes less than a microsecond
/// of that.
const RUN: Duration = Duration::from_millis(1);

/// Measures both and adds them to `result`. After a request to stop there are fewer runs, and points without
/// a run are left out. Without enough memory for the larger blocks, their sizes are left out with a note.
///
/// Kernel entry is `getpid` by a raw system call, so that the C library cannot answer from a cache. Copies
/// are `copy_from_slice` of a length unknown to the compiler, which calls the C library's `memcpy`.
///
/// # Errors
/// [`Error::Input`] if the processor may not be used; [`Error::Stopped`].
pub fn run(
    options: &Options,
    result: &mut Assessment,
    progress: &mut dyn Progress,
) -> Result<Soundness, Error> {
    let left_out = &mut result.left_out;
    let (costs, cpu) = test_bed::without_network(options.cpu, |cpu| {
        Ok((measure_up_to(LARGEST, options.runs, left_out, progress), cpu))
    })?;
    result.costs = Some(costs);
    result.settings.cpu = Some(cpu);
    if progress.stopped() { Err(Error::Stopped) } else { Ok(Soundness::Sound) }
}

fn measure_up_to(
    largest: usize,
    runs: u32,
    left_out: &mut Vec<LeftOut>,
    progress: &mut dyn Progress,
) -> Costs {
    progress.at(0.0, "preparing memory");
    let mut costs = Costs { kernel_entry_ns: Vec::new(), copies: Vec::new() };
    let pair = arena::pair(largest);
    left_out
        .extend(too_little_memory(largest, pair.as_ref().map_or(0, |(source, _)| source.largest_block())));
    let Some((mut source, mut target)) = pair else { return costs };
    let mut points: Vec<Point> = points(largest.min(source.largest_block())).collect();
    let entries = repetitions(time_entries);
    for point in &mut points {
        point.repetitions = repetitions(|count| point.copy(&mut source, &mut target, count));
    }

    let mut share = 0.0;
    let step = 1.0 / (f64::from(runs) * points.len() as f64);
    'runs: for _ in 0..runs {
        progress.at(share, "entering the kernel");
        costs.kernel_entry_ns.push(nanoseconds_each(time_entries(entries), entries));
        for point in &mut points {
            if progress.stopped() {
                break 'runs;
            }
            progress.at(share, &format!("copying {} bytes", point.cost.size));
            let took = point.copy(&mut source, &mut target, point.repetitions);
            point.cost.ns.push(nanoseconds_each(took, point.repetitions));
            share += step;
        }
    }
    costs.copies = points.into_iter().map(|point| point.cost).filter(|cost| !cost.ns.is_empty()).collect();
    costs
}

/// Sizes left out because only blocks of at most `possible` bytes can be copied.
fn too_little_memory(largest: usize, possible: usize) -> Option<LeftOut> {
    (possible < largest).then(|| LeftOut {
        what: format!("host: copies of more than {possible} bytes"),
        why: "too little memory is free: they take several times what the processor's caches hold".to_owned(),
    })
}

/// Point of the measurement.
struct Point {
    cost: CopyCost,
    repetitions: u32,
}

/// Points up to the size `largest`.
fn points(largest: usize) -> impl Iterator<Item = Point> {
    let sizes =
        std::iter::successors(Some(SMALLEST), |size| Some(size * 2)).take_while(move |size| *size <= largest);
    sizes.flat_map(|size| {
        [(true, true), (false, true), (true, false), (false, false)].map(|(aligned, cached)| Point {
            cost: CopyCost { size: size as u64, aligned, cached, ns: Vec::new() },
            repetitions: 1,
        })
    })
}

impl Point {
    /// Copies `repetitions` times, and returns the processor time used.
    fn copy(&self, source: &mut Arena, target: &mut Arena, repetitions: u32) -> Duration {
        let size = black_box(self.cost.size as usize);
        let (from, to) = if self.cost.aligned { (0, 0) } else { (1, 3) };
        match self.cost.cached {
            true => copy_one(source.first(from, size), target.first_mut(to, size), repetitions),
            false => copy_ever_others(source, from, target, to, size, repetitions),
        }
    }
}

/// Copies the same block repeatedly.
fn copy_one(source: &[u8], target: &mut [u8], repetitions: u32) -> Duration {
    let start = used();
    for _ in 0..repetitions {
        // The compiler must assume that the source has changed and that the target is read, each time.
        black_box(&mut *target).copy_from_slice(black_box(source));
    }
    black_box(target);
    used() - start
}

/// Copies successive blocks; the next call continues after the last block.
fn copy_ever_others(
    source: &mut Arena,
    from: usize,
    target: &mut Arena,
    to: usize,
    size: usize,
    repetitions: u32,
) -> Duration {
    let start = used();
    for _ in 0..repetitions {
        black_box(target.next_mut(to, size)).copy_from_slice(black_box(source.next(from, size)));
    }
    used() - start
}

/// Enters the kernel `count` times, and returns the processor time used.
fn time_entries(count: u32) -> Duration {
    let start = used();
    for _ in 0..count {
        black_box(rustix::process::getpid());
    }
    used() - start
}

/// Processor time used by this thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Number of repetitions that take at least [`RUN`].
fn repetitions(mut run: impl FnMut(u32) -> Duration) -> u32 {
    let mut count: u32 = 1;
    while run(count) < RUN && count < 1 << 30 {
        count *= 2;
    }
    count
}

fn nanoseconds_each(took: Duration, count: u32) -> f64 {
    took.as_nanos() as f64 / f64::from(count)
}

#[cfg(test)]
mod tests;

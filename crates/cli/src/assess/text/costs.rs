//! Cost of entering the kernel and of copying.

use comfy_table::CellAlignment;
use wirepath_assess::result::{CopyCost, Costs};

use super::median;
use crate::table::{lines, new_table, section};

/// The columns: whether aligned, whether from the caches, and what stands above.
const COLUMNS: [(bool, bool, &str); 4] = [
    (true, true, "same block"),
    (false, true, "same, unaligned"),
    (true, false, "ever others"),
    (false, false, "others, unaligned"),
];

/// All of it, with a title.
pub(super) fn part(costs: &Costs, width: usize, utf8: bool) -> String {
    let entry = format!("Entering the kernel (getpid): {} ns\n\n", median(&costs.kernel_entry_ns));
    let mut table = new_table(width, utf8);
    table.set_header(["bytes"].into_iter().chain(COLUMNS.map(|(.., title)| title)));
    let mut sizes: Vec<u64> = costs.copies.iter().map(|copy| copy.size).collect();
    sizes.dedup();
    table.add_rows(sizes.iter().map(|size| {
        let figures = COLUMNS.map(|(aligned, cached, _)| {
            let wanted =
                |copy: &&CopyCost| (copy.size, copy.aligned, copy.cached) == (*size, aligned, cached);
            costs.copies.iter().find(wanted).map_or(String::new(), |copy| median(&copy.ns))
        });
        [crate::format::count(*size)].into_iter().chain(figures)
    }));
    for index in 0..=COLUMNS.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let title = "Copying (memcpy), nanoseconds each; ~ where runs differ by more than a tenth";
    entry + &section(title, &lines(&mut table))
}

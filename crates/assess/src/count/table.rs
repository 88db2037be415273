//! Tables of counts beside the counts of the papers.

use super::lines::{Amount, PaperTable, line_of};
use super::reasons::reasons;
use wirepath_report::{Cell, Kind, Table, number};

use crate::result::Counted;

/// Tables 3 and 4 of the papers with the counts, in that order; a table without counts is left out.
pub fn tables(counts: &[Counted]) -> Vec<Table> {
    let heads =
        ["path", "over", "#calls", "#papers", "#copies", "#papers", "#bytes copied", "why they differ"];
    let of = |caption: &str, tables: &[PaperTable]| {
        let mut table = Table::new(caption, &heads);
        for counted in counts {
            let Some(line) = line_of(counted).filter(|line| tables.contains(&line.table)) else { continue };
            let [calls, copies] = [line.calls, line.copies].map(|amount| Cell::figure(amount, Amount::text));
            let reasons = reasons(counted);
            let why = match reasons.are_all {
                true => Cell::plain(reasons.reasons.join("; ")),
                false => Cell::new("not explained", Kind::Bad),
            };
            table.row([
                Cell::code(counted.path.name()),
                Cell::plain(counted.transport.to_string()),
                Cell::plain(in_packets(counted.calls, counted.packets)),
                calls,
                Cell::plain(in_packets(counted.copies(), counted.packets)),
                copies,
                Cell::plain(number::count(counted.copied_bytes() / counted.packets.max(1))),
                why,
            ]);
        }
        table
    };
    let mut download = of("Table 3: download of a file, counted.", &[PaperTable::Download]);
    let streaming = [PaperTable::Streaming, PaperTable::Slides];
    let mut streaming =
        of("Table 4: streaming with RTP headers, counted; sendfilew is of the slides.", &streaming);
    for table in [&mut download, &mut streaming] {
        table.notes.extend(sent(counts));
    }
    [download, streaming].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// Note on the number and size of packets sent.
fn sent(counts: &[Counted]) -> Option<String> {
    let one = counts.iter().find(|counted| counted.size.is_some())?;
    Some(format!(
        "n: packets, of which {} filled the MTU; TCP: one file. calls: without the one mmap of a file. copies: calls of the kernel's \
         functions that copy payload or headers. bytes copied: for each packet, headers included.",
        number::count(one.packets)
    ))
}

/// Formats a count as `2n`, `1`, or `1.36n` if it is not a multiple of the packets.
fn in_packets(count: u64, packets: u64) -> String {
    /// Counts below packets / `FEW` are shown as plain numbers.
    const FEW: u64 = 64;
    match (count, packets) {
        (0, _) | (_, 0 | 1) => count.to_string(),
        (count, packets) if count == packets => "n".to_owned(),
        (count, packets) if count % packets == 0 => format!("{}n", count / packets),
        (count, packets) if count < packets / FEW => count.to_string(),
        (count, packets) => format!("{}n", number::significant(count as f64 / packets as f64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_as_in_the_papers() {
        assert_eq!(in_packets(0, 1024), "0");
        assert_eq!(in_packets(1, 1024), "1");
        assert_eq!(in_packets(1, 1), "1");
        assert_eq!(in_packets(1024, 1024), "n");
        assert_eq!(in_packets(2048, 1024), "2n");
        assert_eq!(in_packets(16, 1024), "0.0156n");
        assert_eq!(in_packets(1389, 1024), "1.36n");
    }

    #[test]
    fn what_was_counted_stands_beside_the_papers() {
        let counts = crate::example::counts();
        let [download, streaming] = &tables(&counts)[..] else { panic!("two tables") };
        assert_eq!(download.rows.len() + streaming.rows.len(), counts.len());
        for row in download.rows.iter().chain(&streaming.rows) {
            assert_ne!(row[7].kind, Kind::Bad, "{row:?}");
        }
        assert!(tables(&[]).is_empty());
    }
}

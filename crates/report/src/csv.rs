//! Tables as CSV (RFC 4180), for programs that draw and compute.

use crate::table::Table;

/// Renders a table: a head, then its rows.
///
/// # Errors
/// If memory for it cannot be had.
pub fn csv(table: &Table) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(table.columns.iter().map(|column| &column.head))?;
    for row in &table.rows {
        writer.write_record(row.iter().zip(&table.columns).map(|(cell, column)| match column.figures {
            true => cell.text.clone(),
            false => harmless(&cell.text),
        }))?;
    }
    let bytes = writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8(bytes).expect("UTF-8 went in, and quotes"))
}

/// Spreadsheets compute what begins like a formula: text of others does not.
fn harmless(text: &str) -> String {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => format!("'{text}"),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Cell;

    /// Promise: No text of a result becomes markup, a formula or a control sequence of the terminal.
    #[test]
    fn no_text_is_a_formula_and_figures_stay_figures() {
        let mut table = Table::new("Runs", &["what", "#value"]);
        table.row([Cell::plain("=1+1\","), Cell::plain("-1.5")]);
        assert_eq!(csv(&table).unwrap(), "what,value\n\"'=1+1\"\",\",-1.5\n");
    }
}

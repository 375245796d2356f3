//! Tables of the reference data: tab-separated values under a header line.

use crate::text;

/// One row of a table.
#[derive(Debug, Clone)]
pub struct Row {
    header: Vec<String>,
    cells: Vec<String>,
}

/// All rows of a table, by the file's name without `.tsv`.
pub fn rows(table: &str) -> Vec<Row> {
    let text = text(&format!("{table}.tsv"));
    let cells = |line: &str| line.split('\t').map(ToOwned::to_owned).collect::<Vec<_>>();
    let mut lines = text.lines();
    let header = cells(lines.next().unwrap_or_default());
    let rows = lines.map(|line| Row {
        header: header.clone(),
        cells: cells(line),
    });
    rows.collect()
}

// === impl Row ===

impl Row {
    /// The cell in the column of that name. A name that the header does not have is a mistake in the test.
    pub fn cell(&self, column: &str) -> &str {
        let index = self.header.iter().position(|name| name == column);
        let index = index.unwrap_or_else(|| panic!("no column {column:?}, only {:?}", self.header));
        self.cells.get(index).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_as_many_cells_as_the_header() {
        for table in [
            "defaults",
            "feature-gates",
            "field-selectors",
            "metrics-names",
            "reasons",
        ] {
            for row in rows(table) {
                assert_eq!(row.cells.len(), row.header.len(), "{table}: {row:?}");
            }
        }
    }

    #[test]
    fn a_cell_is_found_by_its_column() {
        let gates = rows("feature-gates");
        let gate = gates.iter().find(|row| row.cell("gate") == "APIServerIdentity");
        assert_eq!(gate.unwrap().cell("stage"), "Beta");
    }
}

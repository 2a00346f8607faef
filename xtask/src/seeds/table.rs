//! The two tables of `docs/seeds.md`.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};

/// The headings of the tables and the number of their rows.
const SECTIONS: &[(&str, usize)] = &[("Gateway rows", 46), ("Tool rows", 53)];

/// What precedes the reason why a row, or a part of it, has no test.
const REASON: &str = "not yet: ";

pub(super) struct Table {
    rows: Vec<Row>,
}

struct Row {
    section: String,
    number: usize,
    tests: Vec<String>,
    reason: Option<String>,
}

impl Table {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut section = "";
        let mut rows = Vec::new();
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                section = heading;
            }
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let Some(Ok(number)) = line.starts_with('|').then(|| cells[0].parse()) else { continue };
            let shown =
                cells.get(2).with_context(|| format!("row {number} of `{section}` has too few cells"))?;
            let reason = shown.split("<br>").find_map(|part| part.strip_prefix(REASON));
            rows.push(Row {
                section: section.to_owned(),
                number,
                tests: names(shown).map(str::to_owned).collect(),
                reason: reason.map(str::to_owned),
            });
        }
        Ok(Self { rows })
    }

    /// Rows that are missing, appear twice, or give neither a test nor a reason.
    pub(super) fn incomplete(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for (section, count) in SECTIONS {
            for number in 1..=*count {
                let found = self.rows.iter().filter(|row| row.section == *section && row.number == number);
                if found.count() != 1 {
                    errors.push(format!("{section} {number}: the table must have this row exactly once"));
                }
            }
        }
        for row in self.rows.iter().filter(|row| row.tests.is_empty() && row.reason.is_none()) {
            errors.push(format!("{}: name a test, or a reason after `{REASON}`", row.label()));
        }
        errors
    }

    /// Named tests that do not exist, with the row that names them.
    pub(super) fn missing<'a>(&'a self, tests: &BTreeSet<String>) -> Vec<(String, &'a str)> {
        let named =
            self.rows.iter().flat_map(|row| row.tests.iter().map(|test| (row.label(), test.as_str())));
        named.filter(|(_, test)| !tests.contains(*test)).collect()
    }

    pub(super) fn summary(&self) -> String {
        let mut lines = Vec::new();
        for (section, _) in SECTIONS {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.section == *section).collect();
            let shown = rows.iter().filter(|row| row.reason.is_none() && !row.tests.is_empty()).count();
            let partly = rows.iter().filter(|row| row.reason.is_some() && !row.tests.is_empty()).count();
            let open = rows.len() - shown - partly;
            lines.push(format!("{section}: {shown} shown by tests, {partly} partly, {open} not yet"));
            let reasons = rows.iter().filter_map(|row| Some((row.number, row.reason.as_ref()?)));
            lines.extend(reasons.map(|(number, reason)| format!("  {number:>2} {reason}")));
        }
        lines.join("\n")
    }
}

impl Row {
    fn label(&self) -> String {
        format!("{} {}", self.section, self.number)
    }
}

/// The names of tests in a text: a program, a space and a test, in backquotes.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|name| {
        name.split_once(' ').is_some_and(|(program, test)| !program.is_empty() && is_test(test))
    })
}

fn is_test(text: &str) -> bool {
    text.contains('_') && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_:".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_needs_a_test_that_exists_or_a_reason() {
        let text = "## Gateway rows\n| row | a | b |\n|---|---|---|\n| 1 | x | `a::b c::d_e` |\n\
                    | 2 | x | `a lost_test`<br>not yet: the rest |\n| 3 | `.file` | nothing |\n";
        let table = Table::parse(text).unwrap();
        let tests = ["a::b c::d_e".to_owned()].into();
        assert_eq!(table.missing(&tests), [("Gateway rows 2".to_owned(), "a lost_test")]);
        let errors = table.incomplete();
        assert_eq!(errors.len(), 43 + 53 + 1, "{errors:?}");
        assert!(errors.last().unwrap().starts_with("Gateway rows 3: name a test"));
        assert!(table.summary().contains("1 shown by tests, 1 partly, 1 not yet\n   2 the rest"));
    }
}

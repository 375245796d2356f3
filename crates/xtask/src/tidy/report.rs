//! The report: the violations and advice of all rules, in order.

use super::source::Source;

/// Findings in the order they were made.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rule: &'static str,
    findings: Vec<Finding>,
}

#[derive(Debug)]
struct Finding {
    rule: &'static str,
    weight: Weight,
    /// `path:line`, or only a path where no line is meant.
    position: String,
    what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// The gate fails.
    Violation,
    /// Worth a look; the gate passes.
    Advice,
}

impl Report {
    /// Sets the rule that the following findings belong to.
    pub(crate) fn begin(&mut self, rule: &'static str) {
        self.rule = rule;
    }

    /// A violation at a byte of a file: what it is, and what to do instead.
    pub(crate) fn violation(&mut self, source: &Source, offset: usize, what: impl Into<String>) {
        self.push(
            Weight::Violation,
            format!("{}:{}", source.path, source.line_at(offset)),
            what.into(),
        );
    }

    /// A violation of a whole file or folder.
    pub(crate) fn violation_of(&mut self, path: &str, what: impl Into<String>) {
        self.push(Weight::Violation, path.to_owned(), what.into());
    }

    /// A line for the reader that fails nothing.
    pub(crate) fn advice(&mut self, path: &str, what: impl Into<String>) {
        self.push(Weight::Advice, path.to_owned(), what.into());
    }

    pub(crate) fn violations(&self) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.weight == Weight::Violation)
            .count()
    }

    /// `path:line: rule: what`; advice is marked.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.findings.iter().map(|finding| {
            let advice = if finding.weight == Weight::Advice {
                " (advice)"
            } else {
                ""
            };
            format!("{}: {}{advice}: {}", finding.position, finding.rule, finding.what)
        })
    }

    fn push(&mut self, weight: Weight, position: String, what: String) {
        self.findings.push(Finding {
            rule: self.rule,
            weight,
            position,
            what,
        });
    }
}

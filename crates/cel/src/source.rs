//! Errors of an expression with their position in its source, in the form that Kubernetes prints them.

use crate::cel_type::Type;
use crate::estimate::Range;

/// An error of parsing or checking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Issue {
    /// In characters from the start of the source.
    pub(crate) offset: usize,
    pub(crate) message: String,
}

/// The position of an error about the whole expression.
pub(crate) const NO_POSITION: usize = usize::MAX;

/// Why an expression does not compile.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CompileError {
    /// Errors of parsing and checking. The text has each with its line of the source.
    #[error("{0}")]
    Invalid(String),
    /// An error of a constant, such as `int('x')`, in an expression that has a type and a cost.
    #[error("{message}")]
    Program {
        message: String,
        result: Type,
        cost: Range,
    },
}

impl CompileError {
    pub(crate) fn new(source: &str, mut issues: Vec<Issue>) -> Self {
        issues.sort_by_key(|issue| issue.offset);
        let texts: Vec<String> = issues.iter().map(|issue| display(source, issue)).collect();
        Self::Invalid(texts.join("\n"))
    }

    /// An error without a position.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::Invalid(text.into())
    }
}

fn display(source: &str, issue: &Issue) -> String {
    if issue.offset == NO_POSITION {
        return format!("ERROR: <input>:-1:0: {}", issue.message);
    }
    // An empty source has no line to show.
    if source.is_empty() {
        return format!("ERROR: <input>:1:0: {}", issue.message);
    }
    let (line, column) = position(source, issue.offset);
    let text: String = source
        .split('\n')
        .nth(line)
        .unwrap_or_default()
        .replace('\t', " ");
    let mut marker = String::new();
    let mut rest = text.chars();
    for _ in 0..column {
        let Some(character) = rest.next() else { break };
        marker.push(if character.len_utf8() == 1 {
            '.'
        } else {
            '\u{ff0e}'
        });
    }
    let is_wide = rest.next().is_some_and(|character| character.len_utf8() > 1);
    marker.push(if is_wide { '\u{ff3e}' } else { '^' });
    format!(
        "ERROR: <input>:{}:{}: {}\n | {text}\n | {marker}",
        line + 1,
        column + 1,
        issue.message
    )
}

/// Line and column of an offset, both from zero, in characters.
fn position(source: &str, offset: usize) -> (usize, usize) {
    let before = source.chars().take(offset);
    before.fold((0, 0), |(line, column), character| match character {
        '\n' => (line + 1, 0),
        _ => (line, column + 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_its_line_and_column() {
        let issue = Issue {
            offset: 6,
            message: "undeclared reference to 'x' (in container '')".to_owned(),
        };
        let error = CompileError::new("a ==\n\tx", vec![issue]);
        assert_eq!(
            error.to_string(),
            "ERROR: <input>:2:2: undeclared reference to 'x' (in container '')\n |  x\n | .^"
        );
        let issue = Issue {
            offset: 0,
            message: "Syntax error".to_owned(),
        };
        let error = CompileError::new("", vec![issue]);
        assert_eq!(error.to_string(), "ERROR: <input>:1:0: Syntax error");
    }
}

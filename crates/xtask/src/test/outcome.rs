//! The outcome of each step, and their summary table.

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// With the reason.
    Skipped(String),
    /// With the reason.
    Failed(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Skipped(why) => write!(f, "skipped ({why})"),
            Self::Failed(why) => write!(f, "failed ({why})"),
        }
    }
}

/// Every step with its outcome and its time, in the order they ran.
#[derive(Debug, Default)]
pub(super) struct Summary {
    rows: Vec<(&'static str, Outcome, Duration)>,
}

impl Summary {
    pub(super) fn add(&mut self, step: &'static str, outcome: Outcome, duration: Duration) {
        self.rows.push((step, outcome, duration));
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        if self.count(|outcome| matches!(outcome, Outcome::Failed(_))) == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }

    fn count(&self, is: fn(&Outcome) -> bool) -> usize {
        self.rows.iter().filter(|(_, outcome, _)| is(outcome)).count()
    }
}

/// The table, then one plain line with the counts.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<14} {:>7}  outcome", "step", "time")?;
        for (step, outcome, duration) in &self.rows {
            writeln!(f, "{step:<14} {:>6.1}s  {outcome}", duration.as_secs_f64())?;
        }
        let passed = self.count(|outcome| *outcome == Outcome::Passed);
        let failed = self.count(|outcome| matches!(outcome, Outcome::Failed(_)));
        let skipped = self.count(|outcome| matches!(outcome, Outcome::Skipped(_)));
        write!(f, "\n{passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(outcomes: &[Outcome]) -> Summary {
        let mut summary = Summary::default();
        for outcome in outcomes {
            summary.add("step", outcome.clone(), Duration::from_millis(1500));
        }
        summary
    }

    #[test]
    fn the_last_line_counts_the_steps_and_stands_alone() {
        let outcomes = [Outcome::Passed, Outcome::Passed, Outcome::Skipped("why".into())];
        let text = summary(&outcomes).to_string();
        assert_eq!(text.lines().last(), Some("2 passed, 0 failed, 1 skipped"));
    }

    #[test]
    fn a_row_has_the_time_and_the_reason() {
        let text = summary(&[Outcome::Skipped("no kubectl".into())]).to_string();
        assert_eq!(
            text.lines().nth(1),
            Some("step              1.5s  skipped (no kubectl)")
        );
    }

    #[test]
    fn only_a_failed_step_fails_the_run() {
        let code = |outcomes: &[Outcome]| format!("{:?}", summary(outcomes).exit_code());
        assert_eq!(
            code(&[Outcome::Skipped(String::new())]),
            format!("{:?}", ExitCode::SUCCESS)
        );
        assert_eq!(
            code(&[Outcome::Passed, Outcome::Failed(String::new())]),
            format!("{:?}", ExitCode::FAILURE)
        );
    }
}

//! Rounds of baseline and subject, interleaved A-B-A-B, so that a change of the machine's speed affects both.

use anyhow::Result;

use crate::statistics::Spread;

/// The outcomes of baseline and subject, paired by round.
#[derive(Debug)]
pub(crate) struct PairedRounds<T> {
    pub(crate) baseline: Vec<T>,
    pub(crate) subject: Vec<T>,
}

impl<T> Default for PairedRounds<T> {
    fn default() -> Self {
        Self {
            baseline: Vec::new(),
            subject: Vec::new(),
        }
    }
}

/// Runs both `rounds` times, the baseline first in each round.
pub(crate) fn run<T>(
    rounds: usize,
    mut baseline: impl FnMut() -> Result<T>,
    mut subject: impl FnMut() -> Result<T>,
) -> Result<PairedRounds<T>> {
    let mut pairs = PairedRounds::default();
    for _ in 0..rounds {
        pairs.baseline.push(baseline()?);
        pairs.subject.push(subject()?);
    }
    Ok(pairs)
}

impl<T> PairedRounds<T> {
    pub(crate) fn baseline(&self, metric: impl Fn(&T) -> f64) -> Spread {
        spread(self.baseline.iter().map(metric))
    }

    pub(crate) fn subject(&self, metric: impl Fn(&T) -> f64) -> Spread {
        spread(self.subject.iter().map(metric))
    }

    /// Subject over baseline, within each round.
    pub(crate) fn ratio(&self, metric: impl Fn(&T) -> f64) -> Spread {
        spread(
            self.subject
                .iter()
                .zip(&self.baseline)
                .map(|(subject, baseline)| metric(subject) / metric(baseline)),
        )
    }
}

fn spread(values: impl Iterator<Item = f64>) -> Spread {
    Spread::of(values).expect("at least one round is run")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_alternate_and_ratios_are_taken_within_a_round() {
        let order = std::cell::RefCell::new(String::new());
        let step = |name: char, value: f64| {
            order.borrow_mut().push(name);
            Ok(value)
        };
        let mut growing = 0.0;
        let rounds = run(
            3,
            || step('a', 10.0),
            || {
                growing += 10.0;
                step('b', growing)
            },
        )
        .unwrap();
        assert_eq!(order.into_inner(), "ababab");
        assert_eq!(
            rounds.ratio(|value| *value),
            Spread {
                low: 1.0,
                median: 2.0,
                high: 3.0
            }
        );
    }
}

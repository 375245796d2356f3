//! Baseline and subject in turns: A-B-A-B, so that a machine that gets slower slows both.

use anyhow::Result;

use crate::statistics::Spread;

/// Outcomes of the same rounds of a baseline and of what is measured against it, pair by pair.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    pub(crate) baseline: Vec<T>,
    pub(crate) subject: Vec<T>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            baseline: Vec::new(),
            subject: Vec::new(),
        }
    }
}

/// Runs both `rounds` times, the baseline first in each round.
pub(crate) fn take<T>(
    rounds: usize,
    mut baseline: impl FnMut() -> Result<T>,
    mut subject: impl FnMut() -> Result<T>,
) -> Result<Turns<T>> {
    let mut turns = Turns::default();
    for _ in 0..rounds {
        turns.baseline.push(baseline()?);
        turns.subject.push(subject()?);
    }
    Ok(turns)
}

impl<T> Turns<T> {
    pub(crate) fn baseline(&self, figure: impl Fn(&T) -> f64) -> Spread {
        spread(self.baseline.iter().map(figure))
    }

    pub(crate) fn subject(&self, figure: impl Fn(&T) -> f64) -> Spread {
        spread(self.subject.iter().map(figure))
    }

    /// Subject over baseline, within each round.
    pub(crate) fn ratio(&self, figure: impl Fn(&T) -> f64) -> Spread {
        spread(
            self.subject
                .iter()
                .zip(&self.baseline)
                .map(|(subject, baseline)| figure(subject) / figure(baseline)),
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
        let turns = take(
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
            turns.ratio(|value| *value),
            Spread {
                low: 1.0,
                median: 2.0,
                high: 3.0
            }
        );
    }
}

//! The driver: builds inputs by number, runs a target on each, and collects those that it panics on.

use std::panic::{self, AssertUnwindSafe};

use jiff::SignedDuration;
use rand::SeedableRng;
use rand::rngs::StdRng;
use setpoint_api::Clock;

use crate::mutation;
use crate::targets::Target;

/// The inputs to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    /// The number of the first input. The seeds themselves are run before it.
    pub first: u64,
    pub inputs: u64,
}

/// An input that a target panicked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The number of the input; `None` for a seed.
    pub number: Option<u64>,
    pub input: Vec<u8>,
    pub message: String,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub inputs: u64,
    pub findings: Vec<Finding>,
    /// The longest time that an input took, and its number.
    pub slowest: (SignedDuration, Option<u64>),
}

/// A run stops after this many findings.
const MAX_FINDINGS: usize = 5;

/// Runs a target on its seeds and on the planned inputs. Readers recurse, so the thread should have the stack that the
/// server gives its own.
pub fn run(target: &Target, plan: Plan, clock: &dyn Clock) -> Report {
    let seeds = (target.seeds)();
    let mut report = Report::default();
    for seed in &seeds {
        report.check(target, (None, seed.clone()), clock);
    }
    for number in plan.first..plan.first + plan.inputs {
        if report.findings.len() >= MAX_FINDINGS {
            break;
        }
        let input = mutated(&seeds, plan.seed, number);
        report.check(target, (Some(number), input), clock);
    }
    report
}

/// The input of a number.
pub fn input(target: &Target, seed: u64, number: u64) -> Vec<u8> {
    mutated(&(target.seeds)(), seed, number)
}

fn mutated(seeds: &[Vec<u8>], seed: u64, number: u64) -> Vec<u8> {
    // Consecutive seeds must not give overlapping inputs.
    let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number));
    mutation::mutated(seeds, &mut rng)
}

impl Report {
    fn check(&mut self, target: &Target, (number, input): (Option<u64>, Vec<u8>), clock: &dyn Clock) {
        self.inputs += 1;
        let started = clock.now();
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
        self.slowest = self.slowest.max((clock.now().duration_since(started), number));
        let Err(panicked) = outcome else { return };
        let text = panicked.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panicked.downcast_ref::<&str>().copied());
        self.findings.push(Finding {
            number,
            input,
            message: text.unwrap_or("a panic without a message").to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::SystemClock;

    use super::*;
    use crate::targets;

    /// Few enough for a test run, many enough to notice a reader that became careless.
    const INPUTS: u64 = 1500;

    #[track_caller]
    fn check_brief_run(target: &Target) {
        let plan = Plan {
            seed: 1,
            first: 0,
            inputs: INPUTS / target.cost,
        };
        let report = run(target, plan, &SystemClock::new());
        let finding = report.findings.first();
        assert!(
            finding.is_none(),
            "{}: input {:?} {:?}: {}",
            target.name,
            finding.and_then(|finding| finding.number),
            finding.map(|finding| String::from_utf8_lossy(&finding.input)),
            finding.map_or("", |finding| &finding.message)
        );
    }

    #[test]
    fn no_target_panics_in_a_brief_run() {
        std::thread::scope(|scope| {
            for target in targets::ALL {
                scope.spawn(|| check_brief_run(target));
            }
        });
    }

    #[test]
    fn an_input_follows_from_its_seed_and_number() {
        for target in targets::ALL {
            assert_eq!(input(target, 7, 3), input(target, 7, 3));
        }
        let json = targets::find("json").unwrap();
        assert_ne!(input(json, 7, 3), input(json, 7, 4));
        assert_ne!(input(json, 7, 3), input(json, 8, 3));
    }

    #[test]
    fn a_panic_is_a_finding() {
        let careless = Target {
            name: "careless",
            cost: 1,
            seeds: || vec![b"ok".to_vec()],
            run: |bytes| assert!(bytes == b"ok", "bad input"),
        };
        let plan = Plan {
            seed: 1,
            first: 10,
            inputs: 100,
        };
        let report = run(&careless, plan, &SystemClock::new());
        assert_eq!(report.findings.len(), MAX_FINDINGS);
        assert_eq!(report.findings[0].message, "bad input");
        let number = report.findings[0].number.unwrap();
        assert_eq!(input(&careless, 1, number), report.findings[0].input);
    }
}

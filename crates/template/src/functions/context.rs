//! The context of a function call: the limits of the execution and its environment.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::limits::{Budget, Limits};

/// Facts from outside of the template. Execution reads no clock and no environment of the process.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The time that `now` returns; without it, functions that need the time are an error.
    pub now: Option<Timestamp>,
    /// The time zone `Local`.
    pub time_zone: TimeZone,
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            now: None,
            time_zone: TimeZone::UTC,
        }
    }
}

/// What a function may use besides its arguments.
#[derive(Debug)]
pub struct Context<'e> {
    limits: Limits,
    budget: Budget,
    environment: &'e Environment,
}

impl<'e> Context<'e> {
    pub(crate) fn new(limits: Limits, environment: &'e Environment) -> Self {
        Self {
            limits,
            budget: Budget::new(limits.steps),
            environment,
        }
    }

    /// Takes steps from the budget. A function that produces much must call it before it does so.
    pub fn charge(&self, steps: usize) -> Result<(), String> {
        self.budget.charge(steps)
    }

    /// The current time.
    pub fn now(&self) -> Result<Timestamp, String> {
        self.environment
            .now
            .ok_or_else(|| "the current time is not available".to_owned())
    }

    /// The time zone `Local`.
    pub fn time_zone(&self) -> &TimeZone {
        &self.environment.time_zone
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }
}

//! Limits of an execution. A template is a program, and data may come from users: without limits, a few characters can
//! take any amount of time and memory.

use std::cell::Cell;

/// The most that one execution may use. Beyond it, the execution is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the output.
    pub output_bytes: usize,
    /// Nodes that are executed, and bytes and items that functions produce.
    pub steps: u64,
    /// Nested actions, pipelines and templates.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            output_bytes: 16 << 20,
            steps: 100_000_000,
            depth: 400,
        }
    }
}

/// What is left of the steps of one execution.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    left: Cell<u64>,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            left: Cell::new(limit),
        }
    }

    /// Takes steps from the budget.
    pub(crate) fn charge(&self, steps: usize) -> Result<(), String> {
        match self.left.get().checked_sub(steps as u64) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                self.left.set(0);
                Err(format!("exceeded the limit of {} steps", self.limit))
            }
        }
    }
}

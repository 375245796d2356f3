//! One file per command. Each returns whether all checks passed.

pub(crate) mod diff;
pub(crate) mod fuzz;
pub(crate) mod mutate;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod scheduling;

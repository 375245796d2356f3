//! One file per command. Each says whether all is well.

pub(crate) mod diff;
pub(crate) mod fuzz;
pub(crate) mod replay;
pub(crate) mod run;

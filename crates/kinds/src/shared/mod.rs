//! Validation that several kinds share: quantities, conditions, node selectors, and the diffs of values in error
//! messages.

pub mod resources;

pub mod int_or_percent;

pub mod condition;

pub mod node_selector;

pub mod diff;

//! Validation that several kinds share: names, selectors, quantities, addresses, conditions; and the dumps of values
//! in error messages.

pub mod name;

pub mod label_selector;

pub mod resources;

pub mod int_or_percent;

pub mod condition;

pub mod ip;

pub mod node_selector;

pub mod diff;
pub(crate) mod display;
pub mod go_dump;

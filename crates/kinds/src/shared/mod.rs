//! Rules that several kinds share: names, selectors, amounts, addresses, conditions; and how messages show whole
//! objects.

pub mod name;

pub mod label_selector;

pub mod resources;

pub mod int_or_percent;

pub mod condition;

pub mod ip;

pub mod node_selector;

pub mod diff;
pub mod internal;
pub(crate) mod shown;

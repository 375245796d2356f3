//! Rules that several kinds share: names, selectors, resources; and the two ways messages show whole objects.

pub mod name;

pub mod label_selector;

pub mod resources;

pub mod diff;
pub mod internal;

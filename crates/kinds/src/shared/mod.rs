//! Rules that several kinds share: names, selectors, resources.

pub mod name;

pub mod label_selector;

pub mod resources;

//! Selectors: which objects a list or a watch is about.

mod field;
mod label;
mod parse;

pub use field::FieldSelector;
pub use label::{LabelSelector, Operator, Requirement};

use crate::object::Stored;

/// The text is not a selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSelector(pub String);

impl std::fmt::Display for BadSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadSelector {}

/// Whether an object is one that both selectors select.
pub fn selects(labels: &LabelSelector, fields: &FieldSelector, object: &Stored) -> bool {
    labels.matches(|name| object.label(name)) && fields.matches(|label| object.field(label))
}

//! Label and field selectors of lists and watches.

mod field;
mod label;
mod parse;

pub use field::FieldSelector;
pub use label::{LabelSelector, Operator, Requirement};

use crate::object::Stored;

/// A text that is not a selector. The message is Kubernetes'.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseSelectorError(pub String);

impl std::fmt::Display for ParseSelectorError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseSelectorError {}

/// Whether both selectors match an object.
pub fn selects(labels: &LabelSelector, fields: &FieldSelector, object: &Stored) -> bool {
    labels.matches(|name| object.label(name)) && fields.matches(|label| object.field(label))
}

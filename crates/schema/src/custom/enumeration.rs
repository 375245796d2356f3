//! The values of an `enum`.

use std::collections::HashSet;
use std::sync::Arc;

use compact_str::CompactString;

use crate::tree::Tree;

/// The allowed values of a schema node; none means any. A CustomResourceDefinition may list thousands of them, and an
/// object thousands of values.
#[derive(Clone, Debug, Default)]
pub struct Enumeration {
    /// In the order of the CustomResourceDefinition, shared with the violations that list them.
    values: Arc<[Tree]>,
    strings: HashSet<CompactString>,
}

impl Enumeration {
    pub(super) fn of(values: &[Tree]) -> Self {
        let strings = values.iter().filter_map(Tree::as_str);
        Enumeration {
            strings: strings.map(CompactString::from).collect(),
            values: values.into(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The allowed values.
    pub fn values(&self) -> &Arc<[Tree]> {
        &self.values
    }

    pub(super) fn contains(&self, value: &Tree) -> bool {
        match value {
            Tree::Str(text) => self.strings.contains(text),
            value => self.values.iter().any(|allowed| allowed.semantic_eq(value)),
        }
    }
}

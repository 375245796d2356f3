//! [`ImageStates`]: on how many nodes each image is.

use std::collections::HashMap;

use compact_str::CompactString;

use super::node_properties::NodeProperties;

/// The number of nodes that have each image.
#[derive(Debug, Default)]
pub struct ImageStates {
    nodes: HashMap<CompactString, i64>,
    /// The number of changes.
    sequence: u64,
}

impl ImageStates {
    /// The number of nodes that have the image.
    pub fn nodes_with(&self, image: &str) -> i64 {
        self.nodes.get(image).copied().unwrap_or(0)
    }

    /// The number of changes so far.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(super) fn node_changed(&mut self, old: Option<&NodeProperties>, new: Option<&NodeProperties>) {
        let images = |node: Option<&NodeProperties>| node.is_some_and(|node| !node.images.is_empty());
        if old.map(|node| &node.images) == new.map(|node| &node.images) || (!images(old) && !images(new)) {
            return;
        }
        self.sequence += 1;
        for image in old.into_iter().flat_map(|node| node.images.keys()) {
            match self.nodes.get_mut(image) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.nodes.remove(image)),
            }
        }
        for image in new.into_iter().flat_map(|node| node.images.keys()) {
            *self.nodes.entry(image.clone()).or_default() += 1;
        }
    }
}

//! [`ImageStates`]: on how many nodes each image is.

use std::collections::HashMap;

use compact_str::CompactString;

use super::node_properties::NodeProperties;

/// The number of nodes that have each image.
#[derive(Debug, Default)]
pub struct ImageStates {
    nodes: HashMap<CompactString, i64>,
}

impl ImageStates {
    /// The number of nodes that have the image.
    pub fn nodes_with(&self, image: &str) -> i64 {
        self.nodes.get(image).copied().unwrap_or(0)
    }

    pub(super) fn node_changed(&mut self, old: Option<&NodeProperties>, new: Option<&NodeProperties>) {
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

//! The names that a `pub use` re-exports, one by one.

use super::modules::Node;
use super::scan::split_top;
use super::text::normalize;

/// One name of a `use`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UseLeaf {
    /// The path without the name.
    pub(super) path: Vec<String>,
    /// The name in its module; `*` for all.
    pub(super) name: String,
    /// The name that the `use` gives it.
    pub(super) alias: String,
}

impl UseLeaf {
    pub(super) fn is_glob(&self) -> bool {
        self.name == "*"
    }

    /// `pub use a::b as c`.
    pub(super) fn line(&self) -> String {
        let mut path = self.path.clone();
        path.push(self.name.clone());
        let alias = if self.alias == self.name {
            String::new()
        } else {
            format!(" as {}", self.alias)
        };
        format!("pub use {}{alias}", path.join("::"))
    }
}

/// The names that an item re-exports; none if it is not a `pub use`.
pub(super) fn public_leaves(node: &Node<'_>) -> Vec<UseLeaf> {
    if node.item.keyword != "use" || !node.item.is_public {
        return Vec::new();
    }
    let header = normalize(&node.source.code[node.item.header.clone()]);
    let (_, tree) = header.split_once("use ").unwrap_or_default();
    let mut leaves = Vec::new();
    flatten(tree, &[], &mut leaves);
    leaves
}

fn flatten(tree: &str, prefix: &[String], leaves: &mut Vec<UseLeaf>) {
    let tree = tree.trim().trim_start_matches("::");
    if let Some((path, group)) = tree.split_once('{') {
        let below = [prefix, &segments(path)].concat();
        let group = group.trim_end().strip_suffix('}').unwrap_or(group);
        for branch in split_top(group, b',') {
            flatten(branch, &below, leaves);
        }
        return;
    }
    let (path, alias) = tree
        .split_once(" as ")
        .map_or((tree, None), |(path, alias)| (path, Some(alias)));
    let mut path = [prefix, &segments(path)].concat();
    // `a::{self}` names `a`.
    if path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if let Some(name) = path.pop() {
        let alias = alias.map_or_else(|| name.clone(), |alias| alias.trim().to_owned());
        leaves.push(UseLeaf { path, name, alias });
    }
}

fn segments(path: &str) -> Vec<String> {
    let segments = path
        .split("::")
        .map(str::trim)
        .filter(|segment| !segment.is_empty());
    segments.map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_of_a_group_is_one_leaf() {
        let mut leaves = Vec::new();
        flatten("a::{self, b::{C, D as E}, f::*}", &[], &mut leaves);
        let lines: Vec<String> = leaves.iter().map(UseLeaf::line).collect();
        assert_eq!(
            lines,
            [
                "pub use a",
                "pub use a::b::C",
                "pub use a::b::D as E",
                "pub use a::f::*"
            ]
        );
    }
}

//! The tree of owners and dependents, from ownerReferences. Pure.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use setpoint_api::Stored;
use setpoint_client::ApiResource;

/// The metadata of an object, and its resource.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) resource: Arc<ApiResource>,
    pub(super) object: Arc<Stored>,
}

/// A node of the tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct TreeNode<'a> {
    pub(super) item: &'a Item,
    /// Distance from the root.
    pub(super) depth: usize,
    /// Whether it is the last dependent of its owner.
    pub(super) is_last: bool,
}

/// The object of this uid and all its dependents in pre-order, sorted by kind and name; empty if it is not among the items.
/// An object with several owners is a node below each of them, but its dependents are listed once: ownerReferences may
/// form a cycle.
pub(super) fn owner_tree<'a>(root: &str, items: &'a [Item]) -> Vec<TreeNode<'a>> {
    let mut owned: HashMap<&str, Vec<&Item>> = HashMap::new();
    let mut seen = HashSet::new();
    // A server may serve one object under two groups.
    for item in items.iter().filter(|item| seen.insert(item.object.uid())) {
        for owner in &item.object.header().owner_references {
            owned.entry(owner.uid.as_str()).or_default().push(item);
        }
    }
    for children in owned.values_mut() {
        children.sort_by_key(|item| (&item.resource.gvk.kind, item.object.key()));
    }
    let mut nodes = Vec::new();
    if let Some(item) = items.iter().find(|item| item.object.uid() == root) {
        let root = TreeNode {
            item,
            depth: 0,
            is_last: true,
        };
        add(root, &owned, &mut HashSet::new(), &mut nodes);
    }
    nodes
}

fn add<'a>(
    node: TreeNode<'a>,
    owned: &HashMap<&str, Vec<&'a Item>>,
    shown: &mut HashSet<&'a str>,
    nodes: &mut Vec<TreeNode<'a>>,
) {
    nodes.push(node);
    let uid = node.item.object.uid();
    let children = owned.get(uid).filter(|_| shown.insert(uid));
    let Some((last, others)) = children.and_then(|children| children.split_last()) else {
        return;
    };
    let depth = node.depth + 1;
    for item in others {
        add(
            TreeNode {
                item,
                depth,
                is_last: false,
            },
            owned,
            shown,
            nodes,
        );
    }
    add(
        TreeNode {
            item: last,
            depth,
            is_last: true,
        },
        owned,
        shown,
        nodes,
    );
}

#[cfg(test)]
pub(super) mod tests {
    use setpoint_api::object::OwnerReference;
    use setpoint_api::{Gvk, Gvr, Header, Key};

    use super::*;

    /// `Kind/name` that is owned by these; its uid is its name.
    pub(crate) fn item(kind_and_name: &str, owners: &[&str]) -> Item {
        let (kind, name) = kind_and_name.split_once('/').unwrap();
        let owner = |name: &&str| OwnerReference {
            uid: (*name).into(),
            kind: "Any".into(),
            name: (*name).into(),
            api_version: "v1".into(),
            controller: true,
            block_owner_deletion: true,
        };
        let mut header = Header::new(Key::new("default", name));
        header.uid = name.into();
        header.owner_references = owners.iter().map(owner).collect();
        let resource = ApiResource {
            gvr: Gvr::new("", "v1", &kind.to_lowercase()),
            gvk: Gvk::new("", "v1", kind),
            namespaced: true,
            singular: kind.to_lowercase().into(),
            short_names: Vec::new(),
            categories: Vec::new(),
            verbs: Vec::new(),
            subresources: Vec::new(),
        };
        let resource = Arc::new(resource);
        let object = Arc::new(Stored::new(header, "{}".into(), 1));
        Item { resource, object }
    }

    /// The tree below `root`, indented by depth; a dot marks the last dependent.
    #[track_caller]
    fn check(items: &[Item], expected: &[&str]) {
        let nodes = owner_tree("root", items);
        let line = |node: &TreeNode<'_>| {
            let mark = if node.is_last { "." } else { "" };
            format!(
                "{}{}{mark}",
                " ".repeat(node.depth),
                node.item.object.key().name()
            )
        };
        let lines: Vec<String> = nodes.iter().map(line).collect();
        assert_eq!(lines, expected);
    }

    /// TO6
    #[test]
    fn to6_each_owner_precedes_its_dependents() {
        let items = [
            item("Pod/b", &["set"]),
            item("Pod/a", &["set"]),
            item("Pod/of-another", &["other"]),
            item("Set/set", &["root"]),
            item("Map/notes", &["root"]),
            item("App/root", &[]),
        ];
        check(&items, &["root.", " notes", " set.", "  a", "  b."]);
    }

    #[test]
    fn an_object_that_does_not_exist_has_no_tree() {
        check(&[item("Pod/a", &["root"])], &[]);
    }

    #[test]
    fn a_cycle_of_owners_is_walked_once() {
        let items = [item("App/root", &["child"]), item("App/child", &["root"])];
        check(&items, &["root.", " child.", "  root."]);
    }

    #[test]
    fn an_object_served_under_two_groups_is_one_node() {
        let items = [
            item("App/root", &[]),
            item("Event/e", &["root"]),
            item("Event/e", &["root"]),
        ];
        check(&items, &["root.", " e."]);
    }

    #[test]
    fn a_shared_object_is_below_each_of_its_owners() {
        let items = [
            item("App/root", &[]),
            item("Set/a", &["root"]),
            item("Set/b", &["root"]),
            item("Pod/p", &["a", "b"]),
        ];
        check(&items, &["root.", " a", "  p.", " b.", "  p."]);
    }
}

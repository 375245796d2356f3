//! Who is below whom.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use setpoint_api::Stored;
use setpoint_client::ApiResource;

/// An object of which the metadata is known.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) resource: Arc<ApiResource>,
    pub(super) object: Arc<Stored>,
}

/// An object's place in the tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct TreeNode<'a> {
    pub(super) item: &'a Item,
    /// How far from the root.
    pub(super) depth: usize,
    /// Whether no other object of the same owner follows.
    pub(super) is_last: bool,
}

/// The object of this uid and all that it owns, each owner before what it owns, by kind and name; nothing if it is not
/// among the items. An object with several owners is below each of them, but what it owns is shown once: owners may
/// form a circle.
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
    let mut branches = Vec::new();
    if let Some(item) = items.iter().find(|item| item.object.uid() == root) {
        let root = TreeNode {
            item,
            depth: 0,
            is_last: true,
        };
        add(root, &owned, &mut HashSet::new(), &mut branches);
    }
    branches
}

fn add<'a>(
    branch: TreeNode<'a>,
    owned: &HashMap<&str, Vec<&'a Item>>,
    shown: &mut HashSet<&'a str>,
    branches: &mut Vec<TreeNode<'a>>,
) {
    branches.push(branch);
    let uid = branch.item.object.uid();
    let children = owned.get(uid).filter(|_| shown.insert(uid));
    let Some((last, others)) = children.and_then(|children| children.split_last()) else {
        return;
    };
    let depth = branch.depth + 1;
    for item in others {
        add(
            TreeNode {
                item,
                depth,
                is_last: false,
            },
            owned,
            shown,
            branches,
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
        branches,
    );
}

#[cfg(test)]
pub(super) mod tests {
    use setpoint_api::object::OwnerReference;
    use setpoint_api::{Gvk, Gvr, Header, Key};

    use super::*;

    /// `Kind/name` that is owned by these; its uid is its name.
    pub(crate) fn item(what: &str, owners: &[&str]) -> Item {
        let (kind, name) = what.split_once('/').unwrap();
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

    /// The tree below `root`, a step to the right for each owner.
    #[track_caller]
    fn check(items: &[Item], expected: &[&str]) {
        let branches = owner_tree("root", items);
        let line = |branch: &TreeNode<'_>| {
            let mark = if branch.is_last { "." } else { "" };
            format!(
                "{}{}{mark}",
                " ".repeat(branch.depth),
                branch.item.object.key().name()
            )
        };
        let lines: Vec<String> = branches.iter().map(line).collect();
        assert_eq!(lines, expected);
    }

    /// TO6
    #[test]
    fn to6_each_owner_stands_before_what_it_owns() {
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
    fn an_object_that_is_not_there_has_no_tree() {
        check(&[item("Pod/a", &["root"])], &[]);
    }

    #[test]
    fn a_circle_of_owners_is_walked_once() {
        let items = [item("App/root", &["child"]), item("App/child", &["root"])];
        check(&items, &["root.", " child.", "  root."]);
    }

    #[test]
    fn an_object_that_two_groups_serve_is_one() {
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

//! The objects a server makes by itself when they are not there.

use setpoint_api::Gvr;
use setpoint_schema::Tree;

/// The namespaces every cluster has.
pub const NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];

/// The objects to be created at start, each with its resource.
pub fn objects() -> Vec<(Gvr, Tree)> {
    NAMESPACES.iter().map(|name| namespace(name)).collect()
}

fn namespace(name: &str) -> (Gvr, Tree) {
    let mut tree = Tree::default();
    tree.set(&["apiVersion"], "v1");
    tree.set(&["kind"], "Namespace");
    tree.set(&["metadata", "name"], name);
    (Gvr::new("", "v1", "namespaces"), tree)
}

/// Whether a spec is another than that of the object of this kind and name that a server makes by itself.
pub(crate) fn spec_differs(kind: &str, name: &str, spec: &Tree) -> bool {
    let objects = objects();
    let own = objects.iter().map(|(_, tree)| tree);
    let mut own = own.filter(|tree| tree.str_at(&["kind"]) == Some(kind) && crate::meta::name(tree) == name);
    own.next()
        .and_then(|tree| tree.get("spec"))
        .is_some_and(|own| !own.means_same(spec))
}

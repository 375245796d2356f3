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

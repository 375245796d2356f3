//! The objects a server makes by itself when they are not there.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use setpoint_api::Gvr;
use setpoint_schema::{Tree, to_tree};

/// The namespaces every cluster has.
pub const NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];

/// The objects to be created at start, each with its resource.
pub fn objects() -> Vec<(Gvr, Tree)> {
    NAMESPACES.iter().map(|name| namespace(name)).collect()
}

fn namespace(name: &str) -> (Gvr, Tree) {
    let object = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let tree = to_tree(&object).expect("a namespace has only strings");
    (Gvr::new("", "v1", "namespaces"), tree)
}

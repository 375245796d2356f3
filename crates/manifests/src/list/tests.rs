//! What comes out, to the letter. `UPDATE=1` writes the golden file anew.

use std::path::PathBuf;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use setpoint_api::Key;
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Manager, for_, leader};

use super::*;
use crate::FailurePolicy;

struct Idle;

impl Reconcile for Idle {
    async fn reconcile(&self, _: &Key) -> Result<Next, Error> {
        Ok(Next::Done)
    }
}

fn manager() -> Manager {
    let mut manager = Manager::unconnected();
    let controller = for_::<ConfigMap>()
        .owns::<Deployment>()
        .watches::<Secret>(|_| Vec::new())
        .watches::<Pod>(|_| Vec::new())
        .may::<Pod>(&["delete"]);
    manager.control(controller.reconciles_with(Idle));
    manager.elect(leader::Config::new("shop", "shop-operator", "a"));
    manager
}

fn definition() -> CustomResourceDefinition {
    from(json!({
        "metadata": {"name": "shops.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "shops", "kind": "Shop"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    }))
}

#[track_caller]
fn check(golden: &str, manifests: &Manifests) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("src/testdata")
        .join(golden);
    let yaml = manifests.to_yaml();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &yaml).unwrap();
    }
    assert_eq!(yaml, std::fs::read_to_string(&path).unwrap_or_default());
}

#[test]
fn a_program_outside_needs_its_kinds_and_its_rights() {
    check(
        "outside.yaml",
        &Manifests::new("shop-operator", "shop")
            .define(definition())
            .rights(manager().rights()),
    );
}

#[test]
fn a_program_with_webhooks_and_probes_runs_in_the_cluster_behind_a_service() {
    let ignored = Hook::validates::<Pod>("/pods").on(&["CREATE", "DELETE"]);
    let manifests = Manifests::new("shop-operator", "shop")
        .rights(manager().rights())
        .image("example.com/shop-operator:1")
        .endpoints()
        .hook(Hook::mutates::<Deployment>("/defaults"))
        .hook(ignored.failure_policy(FailurePolicy::Ignore).timeout_seconds(2));
    check("inside.yaml", &manifests);
}

//! Golden files of manifests. `UPDATE=1` rewrites them.

use std::path::PathBuf;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use setpoint_api::Key;
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Client, Manager, for_, leader};

use super::*;
use crate::FailurePolicy;

struct Idle;

impl Reconcile for Idle {
    async fn reconcile(&self, _: &Key, _: &Client) -> Result<Next, Error> {
        Ok(Next::Done)
    }
}

fn manager() -> Manager {
    let mut manager = Manager::unconnected();
    let controller = for_::<ConfigMap>()
        .owns::<Deployment>()
        .watches::<Secret>(|_| Vec::new())
        .watches::<Pod>(|_| Vec::new())
        .rbac::<Pod>(["delete"]);
    manager.add_controller(controller.reconciles_with(Idle));
    manager.enable_leader_election(leader::Config::new("shop", "shop-operator", "a"));
    manager
}

fn crd() -> CustomResourceDefinition {
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
fn a_controller_outside_the_cluster_needs_crds_and_rbac() {
    check(
        "out_of_cluster.yaml",
        &Manifests::new("shop-operator", "shop")
            .crd(crd())
            .rbac_rules(manager().rbac_rules()),
    );
}

#[test]
fn a_controller_with_webhooks_and_probes_runs_in_the_cluster_behind_a_service() {
    let optional = Webhook::validating::<Pod>("/pods").operations(&["CREATE", "DELETE"]);
    let manifests = Manifests::new("shop-operator", "shop")
        .rbac_rules(manager().rbac_rules())
        .image("example.com/shop-operator:1")
        .probes()
        .webhook(Webhook::mutating::<Deployment>("/defaults"))
        .webhook(optional.failure_policy(FailurePolicy::Ignore).timeout_seconds(2));
    check("in_cluster.yaml", &manifests);
}

//! Which plugins are enabled, and those that are off by default.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::sync::Arc;

use cluster::Cluster;
use serde_json::json;
use setpoint_admission::{AccessAttributes, AccessChecker, Chain, Config};
use setpoint_api::User;

/// Allows everything except these verbs and resources.
#[derive(Debug)]
struct AllBut(&'static [(&'static str, &'static str)]);

impl AccessChecker for AllBut {
    fn is_allowed(&self, _user: &User, attributes: &AccessAttributes<'_>) -> bool {
        let what = format!("{}/{}", attributes.resource, attributes.subresource);
        let is_denied = |(verb, resource): &(&str, &str)| *verb == attributes.verb && *resource == what;
        what != "*/finalizers" && !self.0.iter().any(is_denied)
    }
}

fn config(enabled: &[&str], disabled: &[&str]) -> Config {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Config {
        enabled: owned(enabled),
        disabled: owned(disabled),
        ..Config::default()
    }
}

#[test]
fn plugins_are_enabled_by_name() {
    let names = |config: &Config| Chain::standard(config).names().collect::<Vec<_>>();
    let (owners, quota) = ("OwnerReferencesPermissionEnforcement", "ResourceQuota");
    let by_default = names(&config(&[], &[]));
    assert!(
        !by_default.contains(&owners)
            && by_default.contains(&quota)
            && by_default.contains(&"PodTopologyLabels")
    );
    let other = names(&config(&[owners, "NodeRestriction"], &[quota]));
    assert!(other.contains(&owners) && other.contains(&"NodeRestriction") && !other.contains(&quota));
}

#[test]
fn invalid_plugin_lists_are_rejected() {
    let error = |config: Config| config.check().unwrap_err().to_string();
    assert_eq!(
        error(config(&["Bogus"], &[])),
        "enable-admission-plugins plugin \"Bogus\" is unknown"
    );
    assert_eq!(
        error(config(&["Priority"], &["Priority"])),
        "[Priority] in enable-admission-plugins and disable-admission-plugins overlapped"
    );
    assert_eq!(config(&["NodeRestriction"], &["Priority"]).check(), Ok(()));
}

#[test]
fn plugins_of_kubernetes_that_are_not_built_may_be_disabled_and_not_enabled() {
    let webhooks = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"];
    assert_eq!(config(&[], &webhooks).check(), Ok(()));
    assert_eq!(
        config(&["ImagePolicyWebhook"], &[])
            .check()
            .unwrap_err()
            .to_string(),
        "enable-admission-plugins plugin \"ImagePolicyWebhook\" is not built into this server"
    );
}

#[tokio::test]
async fn a_pod_on_a_node_has_the_zone_and_the_region_of_the_node() {
    let cluster = Cluster::ready().await;
    let labels = json!({"metadata": {"labels": {
        "topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1", "other": "x",
    }}});
    cluster.create("nodes /n1", &labels.to_string()).await.unwrap();
    let pod = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    });
    let created = cluster
        .create("pods default/web", &pod.to_string())
        .await
        .unwrap();
    assert_eq!(
        created["metadata"]["labels"],
        json!({"app": "web", "topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"})
    );
}

#[tokio::test]
async fn blocking_a_deletion_requires_permission_on_the_finalizers() {
    let access = AllBut(&[("update", "configmaps/finalizers"), ("delete", "secrets/")]);
    let cluster = Cluster::start(&Config {
        access: Some(Arc::new(access)),
        ..config(&["OwnerReferencesPermissionEnforcement"], &[])
    })
    .await;
    let owner = cluster.create("configmaps default/owner", "{}").await.unwrap();
    let owned = |blocks: bool| {
        let owner = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": blocks,
        });
        json!({"metadata": {"ownerReferences": [owner]}}).to_string()
    };
    let status = cluster
        .create("configmaps default/a", &owned(true))
        .await
        .unwrap_err();
    assert_eq!(
        status.message,
        "configmaps \"a\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>"
    );
    cluster
        .create("configmaps default/a", &owned(false))
        .await
        .unwrap();
    let mut secret = cluster.create("secrets default/s", "{}").await.unwrap();
    let reference: serde_json::Value = serde_json::from_str(&owned(false)).unwrap();
    secret["metadata"]["ownerReferences"] = reference["metadata"]["ownerReferences"].clone();
    let status = cluster
        .update("secrets default/s", "", &secret)
        .await
        .unwrap_err();
    assert_eq!(
        status.message,
        "secrets \"s\" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>"
    );
}

#[tokio::test]
async fn images_are_always_pulled_if_the_plugin_is_enabled() {
    let cluster = Cluster::start(&config(&["AlwaysPullImages"], &["ServiceAccount"])).await;
    let pod = json!({"spec": {
        "initContainers": [{"name": "first", "image": "i:1", "imagePullPolicy": "Never"}],
        "containers": [{"name": "main", "image": "i:1", "imagePullPolicy": "IfNotPresent"}],
        "volumes": [{"name": "data", "image": {"reference": "i:2", "pullPolicy": "Never"}}],
    }});
    let pod = cluster
        .create("pods default/web", &pod.to_string())
        .await
        .unwrap();
    let policy = |path: &str| pod["spec"].pointer(path).unwrap().clone();
    for path in [
        "/initContainers/0/imagePullPolicy",
        "/containers/0/imagePullPolicy",
        "/volumes/0/image/pullPolicy",
    ] {
        assert_eq!(policy(path), "Always", "{path}");
    }
}

//! Which rules are asked, and those that are off unless someone wants them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::sync::Arc;

use cluster::Cluster;
use serde_json::json;
use setpoint_admission::{Chain, Config, Right, Rights};
use setpoint_api::User;

/// Everyone may do everything, but for what is said here.
#[derive(Debug)]
struct AllBut(&'static [(&'static str, &'static str)]);

impl Rights for AllBut {
    fn may(&self, _user: &User, right: &Right<'_>) -> bool {
        let what = format!("{}/{}", right.resource, right.subresource);
        let refused = |(verb, resource): &(&str, &str)| *verb == right.verb && *resource == what;
        what != "*/finalizers" && !self.0.iter().any(refused)
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
fn rules_are_switched_by_name() {
    let names = |config: &Config| Chain::standard(config).names().collect::<Vec<_>>();
    let (owners, quota) = ("OwnerReferencesPermissionEnforcement", "ResourceQuota");
    let usual = names(&config(&[], &[]));
    assert!(!usual.contains(&owners) && usual.contains(&quota) && usual.contains(&"PodTopologyLabels"));
    let other = names(&config(&[owners, "NodeRestriction"], &[quota]));
    assert!(other.contains(&owners) && other.contains(&"NodeRestriction") && !other.contains(&quota));
}

#[test]
fn lists_that_make_no_sense_are_refused() {
    let told = |config: Config| config.check().unwrap_err().to_string();
    assert_eq!(
        told(config(&["Bogus"], &[])),
        "enable-admission-plugins plugin \"Bogus\" is unknown"
    );
    assert_eq!(
        told(config(&["Priority"], &["Priority"])),
        "[Priority] in enable-admission-plugins and disable-admission-plugins overlapped"
    );
    assert_eq!(config(&["NodeRestriction"], &["Priority"]).check(), Ok(()));
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
    let made = cluster
        .create("pods default/web", &pod.to_string())
        .await
        .unwrap();
    assert_eq!(
        made["metadata"]["labels"],
        json!({"app": "web", "topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"})
    );
}

#[tokio::test]
async fn who_may_not_hold_up_a_deletion_may_not_say_so() {
    let rights = AllBut(&[("update", "configmaps/finalizers"), ("delete", "secrets/")]);
    let cluster = Cluster::start(&Config {
        rights: Some(Arc::new(rights)),
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
    let refused = cluster
        .create("configmaps default/a", &owned(true))
        .await
        .unwrap_err();
    assert_eq!(
        refused.message,
        "configmaps \"a\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>"
    );
    cluster
        .create("configmaps default/a", &owned(false))
        .await
        .unwrap();
    let mut secret = cluster.create("secrets default/s", "{}").await.unwrap();
    let reference: serde_json::Value = serde_json::from_str(&owned(false)).unwrap();
    secret["metadata"]["ownerReferences"] = reference["metadata"]["ownerReferences"].clone();
    let refused = cluster
        .update("secrets default/s", "", &secret)
        .await
        .unwrap_err();
    assert_eq!(
        refused.message,
        "secrets \"s\" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>"
    );
}

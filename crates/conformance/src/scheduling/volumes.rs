//! The controller-manager's part in the binding of volumes: a claim that the scheduler assigned to a volume becomes bound,
//! and a claim that it assigned to a node gets a new volume.

use anyhow::Result;
use serde_json::{Value, json};

use super::objects::Objects;

const PROVISIONED: &str = "provisioned-";

/// Completes what the scheduler began for the claims of the namespace.
pub(super) fn complete_binding(objects: &mut Objects, namespace: &str) -> Result<()> {
    let claims = objects.list(&format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"))?;
    let unbound: Vec<&Value> = claims
        .iter()
        .filter(|claim| claim["spec"]["volumeName"].is_null())
        .collect();
    if unbound.is_empty() {
        return Ok(());
    }
    let volumes = objects.list("/api/v1/persistentvolumes")?;
    for claim in unbound {
        let assigned = volumes.iter().find(|volume| is_assigned(volume, claim));
        match assigned {
            Some(volume) => bind(objects, volume, claim)?,
            None if is_to_provision(claim) => provision(objects, claim)?,
            None => {}
        }
    }
    Ok(())
}

/// Deletes the volumes that [`complete_binding`] provisioned.
pub(super) fn delete_provisioned(objects: &mut Objects, namespace: &str) -> Result<()> {
    for volume in objects.list("/api/v1/persistentvolumes")? {
        let name = volume["metadata"]["name"].as_str().unwrap_or_default();
        if name.starts_with(PROVISIONED) && volume["spec"]["claimRef"]["namespace"] == namespace {
            objects.delete(
                &json!({"kind": "PersistentVolume", "metadata": {"name": name}}),
                "",
            )?;
        }
    }
    Ok(())
}

fn is_assigned(volume: &Value, claim: &Value) -> bool {
    let reference = &volume["spec"]["claimRef"];
    ["name", "namespace", "uid"]
        .iter()
        .all(|field| reference[field] == claim["metadata"][field] && !reference[field].is_null())
}

fn is_to_provision(claim: &Value) -> bool {
    !claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].is_null()
}

fn bind(objects: &mut Objects, volume: &Value, claim: &Value) -> Result<()> {
    let path = format!(
        "/api/v1/namespaces/{}/persistentvolumeclaims/{}",
        claim["metadata"]["namespace"].as_str().unwrap_or_default(),
        claim["metadata"]["name"].as_str().unwrap_or_default()
    );
    let bound = json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": volume["metadata"]["name"]},
    });
    objects.patch(&path, &bound)?;
    objects.patch(&format!("{path}/status"), &json!({"status": {"phase": "Bound"}}))
}

fn provision(objects: &mut Objects, claim: &Value) -> Result<()> {
    let metadata = &claim["metadata"];
    let uid = metadata["uid"].as_str().unwrap_or_default();
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": format!("{PROVISIONED}{uid}")},
        "spec": {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": claim["spec"]["storageClassName"],
            "hostPath": {"path": "/tmp"},
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": uid,
            },
        },
    });
    objects.create(&volume, "")
}

//! Devices of ResourceClaims: what a pod gets, and the part of a DRA driver that reports conditions.

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::objects::Objects;

/// Marks the claim that a scheduler creates for the extended resources of a pod.
const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";

/// The allocations of the claims that are reserved for the pod, by the name of the claim; null if there are none. Share ids
/// and times differ in every run and are left out.
pub(super) fn allocations(objects: &mut Objects, pod: &Value) -> Result<Value> {
    let (name, namespace) = (&pod["metadata"]["name"], &pod["metadata"]["namespace"]);
    let (name, namespace) = (
        name.as_str().unwrap_or_default(),
        namespace.as_str().unwrap_or_default(),
    );
    let mut allocations = Map::new();
    for mut claim in claims(objects, namespace)? {
        let mut consumers = claim["status"]["reservedFor"].as_array().into_iter().flatten();
        if !consumers.any(|consumer| consumer["name"] == name) {
            continue;
        }
        let mut allocation = claim["status"]["allocation"].take();
        if let Some(fields) = allocation.as_object_mut() {
            fields.remove("allocationTimestamp");
        }
        for result in allocation["devices"]["results"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            if let Some(share) = result.get_mut("shareID") {
                *share = json!("SHARE");
            }
        }
        let key = match is_extended_resource_claim(&claim) {
            true => "extended resources",
            false => claim["metadata"]["name"].as_str().unwrap_or_default(),
        };
        allocations.insert(key.to_owned(), allocation);
    }
    let pod = objects.read(&format!("/api/v1/namespaces/{namespace}/pods/{name}"))?;
    let mappings = &pod["status"]["extendedResourceClaimStatus"]["requestMappings"];
    if !mappings.is_null() {
        allocations.insert("extended resource requests".to_owned(), mappings.clone());
    }
    match allocations.is_empty() {
        true => Ok(Value::Null),
        false => Ok(Value::Object(allocations)),
    }
}

/// Sets these conditions on the devices that are allocated with binding conditions and have no status yet.
pub(super) fn report_conditions(objects: &mut Objects, namespace: &str, conditions: &[Value]) -> Result<()> {
    for claim in claims(objects, namespace)? {
        let results = claim["status"]["allocation"]["devices"]["results"].as_array();
        let waiting = results.into_iter().flatten();
        let waiting: Vec<&Value> = waiting
            .filter(|result| !result["bindingConditions"].is_null())
            .collect();
        if waiting.is_empty() || conditions.is_empty() || !claim["status"]["devices"].is_null() {
            continue;
        }
        let statuses = waiting.into_iter().map(|result| {
            let mut status = json!({"conditions": conditions});
            for field in ["driver", "pool", "device", "shareID"] {
                if let Some(value) = result.get(field) {
                    status[field] = value.clone();
                }
            }
            status
        });
        let patch = json!({"status": {"devices": statuses.collect::<Vec<_>>()}});
        let name = claim["metadata"]["name"].as_str().unwrap_or_default();
        objects.patch(&format!("{}/{name}/status", path(namespace)), &patch)?;
    }
    Ok(())
}

/// Deletes the claims that the scheduler created. In a cluster with all controllers they go with their pods. Returns whether
/// there were any.
pub(super) fn delete_extended_resource_claims(objects: &mut Objects, namespace: &str) -> Result<bool> {
    let mut is_deleted = false;
    for mut claim in claims(objects, namespace)? {
        if is_extended_resource_claim(&claim) {
            claim["kind"] = json!("ResourceClaim");
            objects.delete(&claim, namespace)?;
            is_deleted = true;
        }
    }
    Ok(is_deleted)
}

fn is_extended_resource_claim(claim: &Value) -> bool {
    claim["metadata"]["annotations"][EXTENDED_RESOURCE_CLAIM] == "true"
}

fn claims(objects: &mut Objects, namespace: &str) -> Result<Vec<Value>> {
    objects.list(&path(namespace))
}

fn path(namespace: &str) -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims")
}

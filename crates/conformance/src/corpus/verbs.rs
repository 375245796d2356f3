//! Each verb on an object, from create to delete.

use serde_json::json;

use super::Entry;
use super::steps::{JSON, MERGE, send};
use super::steps::{METADATA, TABLE, delete, get, get_as, patch, post, put_from};
use crate::transcript::Case;

pub(super) fn cases(entry: &Entry) -> Vec<Case> {
    if !entry.is_stored() {
        return vec![virtual_resource(entry)];
    }
    let mut cases = vec![life(entry), reads(entry), deletions(entry)];
    if entry.scale {
        cases.push(scale(entry));
    }
    cases
}

/// A virtual resource, which is created but not stored.
fn virtual_resource(entry: &Entry) -> Case {
    let steps = vec![
        post(&entry.at, &entry.object),
        post(&format!("{}?dryRun=All", entry.at), &entry.object),
        get(&entry.at),
        delete(&entry.at),
    ];
    entry.case("verbs", "asked", steps)
}

fn life(entry: &Entry) -> Case {
    let entry = entry.renamed("life");
    let (at, path) = (&entry.at, &entry.path());
    let label = ("/metadata/labels", json!({"touched": "yes"}));
    let stale = ("/metadata/resourceVersion", json!("1"));
    let renamed = ("/metadata/name", json!("someone-else"));
    let other_uid = ("/metadata/uid", json!("11111111-1111-1111-1111-111111111111"));
    let steps = vec![
        post(&format!("{at}?dryRun=All"), &entry.object),
        get(path),
        post(&format!("{at}?fieldManager=corpus"), &entry.object),
        post(at, &entry.object),
        put_from(path, 2, &[]),
        put_from(&format!("{path}?dryRun=All"), 2, std::slice::from_ref(&label)),
        put_from(path, 2, std::slice::from_ref(&label)),
        put_from(path, 2, &[label, stale]),
        put_from(path, 2, &[renamed]),
        put_from(path, 6, &[other_uid]),
        get(path),
    ];
    entry.case("verbs", "life", steps)
}

fn reads(entry: &Entry) -> Case {
    let entry = entry.renamed("reads");
    let (at, path) = (&entry.at, &entry.path());
    let only = format!("{at}?fieldSelector=metadata.name%3D{}", entry.name());
    let steps = vec![
        post(at, &entry.object),
        get_as(path, TABLE),
        get_as(path, METADATA),
        get(&format!("{path}?pretty=true")),
        get_as(path, "application/yaml"),
        get_as(path, "application/nonsense"),
        get(&only),
        get_as(&only, TABLE),
        get(&format!("{at}?labelSelector=a%20in%20(b)")),
        get(&format!("{at}?labelSelector=%3D%3D")),
        get(&format!("{at}?fieldSelector=spec.bogus%3D1")),
        get(&format!("{path}/status")),
        get(&format!("{path}/bogus")),
    ];
    entry.case("verbs", "reads", steps)
}

fn deletions(entry: &Entry) -> Case {
    let entry = entry.renamed("gone");
    let (at, path) = (&entry.at, &entry.path());
    let options = |body: serde_json::Value| send("DELETE", path, JSON, body.to_string());
    let steps = vec![
        post(at, &entry.object),
        delete(&format!("{path}?dryRun=All")),
        options(json!({"preconditions": {"uid": "11111111-1111-1111-1111-111111111111"}})),
        options(json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Sideways"})),
        patch(
            path,
            MERGE,
            &json!({"metadata": {"finalizers": ["example.com/held"]}}),
        ),
        delete(path),
        get(path),
        patch(path, MERGE, &json!({"metadata": {"finalizers": null}})),
        get(path),
        delete(path),
    ];
    entry.case("verbs", "gone", steps)
}

fn scale(entry: &Entry) -> Case {
    let entry = entry.renamed("scaled");
    let path = &format!("{}/scale", entry.path());
    let steps = vec![
        post(&entry.at, &entry.object),
        get(path),
        patch(path, MERGE, &json!({"spec": {"replicas": 1}})),
        patch(path, MERGE, &json!({"spec": {"replicas": -1}})),
        put_from(path, 1, &[("/spec/replicas", json!(2))]),
    ];
    entry.case("verbs", "scaled", steps)
}

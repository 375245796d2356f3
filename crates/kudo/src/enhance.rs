//! Conventions for applied objects: their labels, annotations, namespace and owner.

use serde_json::{Map, Value, json};
use setpoint_kuttl::gvk_of;

use crate::api::{API_VERSION, labels};

/// The task that applies an object, and its instance.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskMetadata {
    pub(crate) instance: String,
    pub(crate) instance_uid: String,
    pub(crate) namespace: String,
    pub(crate) operator: String,
    pub(crate) operator_version: String,
    pub(crate) app_version: String,
    pub(crate) plan: String,
    pub(crate) plan_uid: String,
    pub(crate) phase: String,
    pub(crate) step: String,
    pub(crate) task: String,
}

/// A field of some kinds. An empty group or kind matches all.
struct ResourcePath {
    group: &'static str,
    kind: &'static str,
    path: &'static str,
}

const fn row(group: &'static str, kind: &'static str, path: &'static str) -> ResourcePath {
    ResourcePath { group, kind, path }
}

const TEMPLATES: &[ResourcePath] = &[
    row("apps", "StatefulSet", "spec/template/metadata"),
    row("apps", "Deployment", "spec/template/metadata"),
    row("", "ReplicaSet", "spec/template/metadata"),
    row("", "ReplicationController", "spec/template/metadata"),
    row("", "DaemonSet", "spec/template/metadata"),
    row("batch", "Job", "spec/template/metadata"),
    row("batch", "CronJob", "spec/jobTemplate/spec/template/metadata"),
];

const CLAIMS: ResourcePath = row("apps", "StatefulSet", "spec/volumeClaimTemplates[]/metadata");

/// Adds labels and annotations to an object, and to the templates of pods and claims in it.
pub(crate) fn add_labels(object: &mut Value, metadata: &TaskMetadata) {
    let own = [
        (labels::HERITAGE, "kudo"),
        (labels::OPERATOR, &metadata.operator),
        (labels::INSTANCE, &metadata.instance),
    ];
    add_to(object, &row("", "", "metadata"), "labels", &own);
    for path in TEMPLATES.iter().chain([&CLAIMS]) {
        add_to(object, path, "labels", &own);
    }
    add_template_annotation(object, labels::OPERATOR_VERSION, &metadata.operator_version);
    // The templates have no annotation of the plan: it would restart the pods with every plan.
    let of_plan = [
        (labels::PLAN, metadata.plan.as_str()),
        (labels::PHASE, &metadata.phase),
        (labels::STEP, &metadata.step),
        (labels::PLAN_UID, &metadata.plan_uid),
    ];
    add_to(object, &row("", "", "metadata"), "annotations", &of_plan);
}

/// Adds an annotation to the pod templates of an object.
pub(crate) fn add_template_annotation(object: &mut Value, key: &str, value: &str) {
    for path in TEMPLATES {
        add_to(object, path, "annotations", &[(key, value)]);
    }
}

/// Puts a namespaced object into the namespace of its instance, which becomes its controller. An error if it has another.
pub(crate) fn set_owner(object: &mut Value, metadata: &TaskMetadata) -> Result<(), String> {
    object["metadata"]["namespace"] = metadata.namespace.as_str().into();
    let mut owners = object["metadata"]["ownerReferences"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    owners.retain(|owner| owner["uid"] != metadata.instance_uid.as_str());
    if owners.iter().any(|owner| owner["controller"] == true) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        return Err(format!(
            "Object {}/{name} is already owned by another controller",
            metadata.namespace
        ));
    }
    let mut owner = owner_reference(metadata);
    owner["controller"] = true.into();
    owner["blockOwnerDeletion"] = true.into();
    owners.push(owner);
    object["metadata"]["ownerReferences"] = owners.into();
    Ok(())
}

/// A reference to the instance.
pub(crate) fn owner_reference(metadata: &TaskMetadata) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "Instance",
        "name": metadata.instance,
        "uid": metadata.instance_uid,
    })
}

fn add_to(object: &mut Value, path: &ResourcePath, field: &str, entries: &[(&str, &str)]) {
    let gvk = gvk_of(object);
    let matches = |expected: &str, actual: &str| expected.is_empty() || expected == actual;
    if matches(path.group, &gvk.group) && matches(path.kind, &gvk.kind) {
        add_at(object, &path.path.split('/').collect::<Vec<_>>(), field, entries);
    }
}

/// Adds entries to the map at a path, which is created if needed. A path through something else than maps is left alone.
fn add_at(value: &mut Value, path: &[&str], field: &str, entries: &[(&str, &str)]) {
    let Some(map) = value.as_object_mut() else { return };
    let (key, rest) = match path {
        [] => {
            let target = map.entry(field).or_insert_with(|| Map::new().into());
            if target.is_null() {
                *target = Map::new().into();
            }
            if let Some(target) = target.as_object_mut() {
                target.extend(
                    entries
                        .iter()
                        .map(|(key, value)| ((*key).to_owned(), (*value).into())),
                );
            }
            return;
        }
        [key, rest @ ..] => (key, rest),
    };
    match key.strip_suffix("[]") {
        Some(key) => {
            let elements = map.get_mut(key).and_then(Value::as_array_mut);
            for element in elements.into_iter().flatten() {
                add_at(element, rest, field, entries);
            }
        }
        None => {
            let next = map.entry(*key).or_insert_with(|| Map::new().into());
            if next.is_null() {
                *next = Map::new().into();
            }
            add_at(next, rest, field, entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_kuttl::manifest;

    use super::*;

    fn metadata() -> TaskMetadata {
        TaskMetadata {
            instance: "i".to_owned(),
            instance_uid: "u".to_owned(),
            namespace: "ns".to_owned(),
            operator: "o".to_owned(),
            operator_version: "1.0".to_owned(),
            plan: "deploy".to_owned(),
            phase: "main".to_owned(),
            step: "first".to_owned(),
            plan_uid: "p".to_owned(),
            ..TaskMetadata::default()
        }
    }

    #[track_caller]
    fn check(object: &str, expected: &str) {
        let mut object = manifest::parse_value(object).unwrap();
        add_labels(&mut object, &metadata());
        assert_eq!(object, manifest::parse_value(expected).unwrap());
    }

    /// TO7
    #[test]
    fn an_object_names_its_operator_instance_and_step() {
        check(
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {mine: x}}}",
            "apiVersion: v1
kind: ConfigMap
metadata:
  name: a
  labels: {mine: x, heritage: kudo, kudo.dev/operator: o, kudo.dev/instance: i}
  annotations:
    kudo.dev/plan: deploy
    kudo.dev/phase: main
    kudo.dev/step: first
    kudo.dev/last-plan-execution-uid: p
",
        );
    }

    /// TO7
    #[test]
    fn templates_have_labels_and_the_version_only() {
        check(
            "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {template: {}, volumeClaimTemplates: [{metadata: {name: v}}]}}",
            "apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: a
  labels: {heritage: kudo, kudo.dev/operator: o, kudo.dev/instance: i}
  annotations:
    kudo.dev/plan: deploy
    kudo.dev/phase: main
    kudo.dev/step: first
    kudo.dev/last-plan-execution-uid: p
spec:
  template:
    metadata:
      labels: {heritage: kudo, kudo.dev/operator: o, kudo.dev/instance: i}
      annotations: {kudo.dev/operator-version: '1.0'}
  volumeClaimTemplates:
  - metadata:
      name: v
      labels: {heritage: kudo, kudo.dev/operator: o, kudo.dev/instance: i}
",
        );
    }

    /// TO7
    #[test]
    fn an_object_of_another_controller_is_an_error() {
        let mut object = json!({"metadata": {"name": "a"}});
        set_owner(&mut object, &metadata()).unwrap();
        set_owner(&mut object, &metadata()).unwrap();
        assert_eq!(object["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
        let other = TaskMetadata {
            instance_uid: "v".to_owned(),
            ..metadata()
        };
        let error = set_owner(&mut object, &other).unwrap_err();
        assert_eq!(error, "Object ns/a is already owned by another controller");
    }
}

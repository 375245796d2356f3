//! Three-way merge of applied objects: what the last apply set and this one does not is removed; what others set stays.
//!
//! The patch is this configuration together with directives for what was removed. Lists of built-in kinds are merged by
//! their keys (strategic merge patch), lists of custom kinds are replaced (JSON merge patch).

use serde_json::{Map, Value, json};
use setpoint_client::Patch;
use setpoint_kuttl::gvk_of;
use setpoint_schema::pack::Pack;
use setpoint_schema::shape::{Field, Shape};

use crate::api::labels;

/// The patch of an object that exists.
pub(crate) fn patch(current: &Value, modified: &Value) -> Result<Patch, String> {
    let original = last_applied(current)?;
    let modified = with_last_applied(modified);
    let gvk = gvk_of(&modified);
    let shape = Pack::builtin()
        .shape_of(&gvk.group, &gvk.version, &gvk.kind)
        .filter(|_| gvk.group != "apiextensions.k8s.io");
    let body = merge(&original, &modified, shape);
    let patch = match shape {
        Some(_) => Patch::strategic(&body),
        None => Patch::merge(&body),
    };
    patch.map_err(|status| status.message)
}

/// The object with the annotation that has the object itself.
pub(crate) fn with_last_applied(object: &Value) -> Value {
    let mut object = object.clone();
    let text = object.to_string();
    object["metadata"]["annotations"][labels::LAST_APPLIED] = text.into();
    object
}

/// The configuration of the last apply. An object with annotations and without this one is not KUDO's.
fn last_applied(current: &Value) -> Result<Value, String> {
    let Some(annotations) = current["metadata"]["annotations"].as_object() else {
        return Ok(json!({}));
    };
    let text = annotations.get(labels::LAST_APPLIED).and_then(Value::as_str);
    let text = text.ok_or("LastAppliedConfigAnnotation is not set")?;
    serde_json::from_str(text).map_err(|_| "LastAppliedConfigAnnotation is invalid JSON".to_owned())
}

fn merge(original: &Value, modified: &Value, shape: Option<&Shape>) -> Value {
    let (Some(original), Some(modified)) = (original.as_object(), modified.as_object()) else {
        return modified.clone();
    };
    let mut patch = Map::new();
    for (key, value) in modified {
        let field = shape.and_then(|shape| shape.member(key));
        match (original.get(key), value) {
            (Some(old @ Value::Object(_)), Value::Object(_)) => {
                patch.insert(key.clone(), merge(old, value, field.and_then(Field::shape)));
            }
            (Some(Value::Array(old)), Value::Array(new)) => merge_list(&mut patch, key, (old, new), field),
            _ => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    for key in original.keys().filter(|key| !modified.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    patch.into()
}

fn merge_list(
    patch: &mut Map<String, Value>,
    key: &str,
    (old, new): (&[Value], &[Value]),
    field: Option<&Field>,
) {
    let strategy = field.and_then(Field::patch_strategy).unwrap_or_default();
    if !strategy.split(',').any(|strategy| strategy == "merge") {
        patch.insert(key.to_owned(), new.into());
        return;
    }
    let Some(merge_key) = field.and_then(Field::merge_key) else {
        let removed: Vec<&Value> = old.iter().filter(|value| !new.contains(value)).collect();
        if !removed.is_empty() {
            patch.insert(format!("$deleteFromPrimitiveList/{key}"), json!(removed));
        }
        patch.insert(key.to_owned(), new.into());
        return;
    };
    let same = |element: &Value| {
        let id = element[merge_key].clone();
        move |other: &&Value| other[merge_key] == id
    };
    let shape = field.and_then(Field::shape);
    let mut elements: Vec<Value> = new
        .iter()
        .map(|element| match old.iter().find(same(element)) {
            Some(old) => merge(old, element, shape),
            None => element.clone(),
        })
        .collect();
    for element in old
        .iter()
        .filter(|element| !new.iter().any(|other| same(element)(&other)))
    {
        elements.push(json!({"$patch": "delete", merge_key: element[merge_key]}));
    }
    patch.insert(key.to_owned(), elements.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: [&str; 2], original: Value, modified: Value, expected: Value) {
        let group = kind[0].split_once('/').map_or("", |(group, _)| group);
        let shape = Pack::builtin().shape_of(group, "v1", kind[1]);
        assert_eq!(merge(&original, &modified, shape), expected);
    }

    /// TO7
    #[test]
    fn a_removed_field_is_null() {
        check(
            ["v1", "ConfigMap"],
            json!({"data": {"a": "1", "b": "2"}}),
            json!({"data": {"a": "3"}}),
            json!({"data": {"a": "3", "b": null}}),
        );
    }

    /// TO7
    #[test]
    fn a_removed_container_is_deleted_by_its_name() {
        let spec = |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
        check(
            ["apps/v1", "Deployment"],
            spec(json!([{"name": "a", "image": "x"}, {"name": "b"}])),
            spec(json!([{"name": "a"}])),
            spec(json!([{"name": "a", "image": null}, {"$patch": "delete", "name": "b"}])),
        );
    }

    /// TO7
    #[test]
    fn lists_of_custom_kinds_are_replaced() {
        check(
            ["example.com/v1", "Note"],
            json!({"spec": {"list": [{"name": "a"}]}}),
            json!({"spec": {"list": []}}),
            json!({"spec": {"list": []}}),
        );
    }

    /// TO7
    #[test]
    fn an_object_of_another_owner_is_an_error() {
        let current = json!({"metadata": {"annotations": {"a": "b"}}});
        assert_eq!(
            last_applied(&current),
            Err("LastAppliedConfigAnnotation is not set".to_owned())
        );
        assert_eq!(last_applied(&json!({"metadata": {}})), Ok(json!({})));
    }
}

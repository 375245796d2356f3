//! Rules of the objects that a webhook returns: they are the same objects, and only labels and annotations of their
//! metadata may change.

use setpoint_api::field::Errors;
use setpoint_schema::patch::go_type;
use setpoint_schema::{Map, Tree, fields};

use crate::builtin::shape_of;
use crate::field::FieldRef;
use crate::meta;

/// The identity of an object, with the words of its errors.
const IDENTITY: [(&str, &str); 3] = [
    (fields::NAME, "name"),
    (fields::NAMESPACE, "namespace"),
    (fields::UID, "UID"),
];

/// Checks that a converted object has the name, the namespace and the uid of the original.
pub fn check_identity(original: &Tree, converted: &Tree) -> Result<(), String> {
    for (field, word) in IDENTITY {
        let (expected, found) = (meta::str(original, field), meta::str(converted, field));
        if expected != found {
            return Err(format!("must have the same {word}: {expected} != {found}"));
        }
    }
    Ok(())
}

/// Replaces the metadata of a converted object by that of the original, but for labels and annotations.
pub fn restore_metadata(original: &Tree, converted: &mut Tree) -> Result<(), String> {
    let returned = match converted.take(&[fields::METADATA]) {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(metadata @ Tree::Map(_)) => metadata,
        Some(other) => {
            let found = type_of(&other);
            return Err(format!("invalid metadata of type {found} in converted object"));
        }
    };
    let metadata = original.get(fields::METADATA).cloned();
    let mut metadata = metadata.unwrap_or_else(|| Tree::Map(Map::default()));
    for field in [fields::LABELS, fields::ANNOTATIONS] {
        match returned.get(field).filter(|value| !value.is_null()) {
            None => drop(metadata.take(&[field])),
            Some(value) => {
                check_entries(field, value, metadata.get(field))?;
                metadata.set(&[field], value.clone());
            }
        }
    }
    converted.set(&[fields::METADATA], metadata);
    Ok(())
}

/// Checks the labels or annotations of a converted object; unchanged ones may have been valid once.
fn check_entries(field: &str, returned: &Tree, original: Option<&Tree>) -> Result<(), String> {
    let Some(entries) = returned.as_map() else {
        let found = type_of(returned);
        return Err(format!(
            "invalid metadata.{field} of type {found} in converted object"
        ));
    };
    for (key, value) in entries.iter() {
        if value.as_str().is_none() {
            let found = type_of(value);
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {found} in converted object"
            ));
        }
    }
    if original.is_some_and(|original| original.semantic_eq(returned)) {
        return Ok(());
    }
    validate_entries(field, returned)
}

/// All objects have the same metadata, so any kind has the shape of these fields.
fn validate_entries(field: &str, entries: &Tree) -> Result<(), String> {
    let mut object = Tree::default();
    object.set(&[fields::METADATA, field], entries.clone());
    let errors = Errors::default();
    let object = FieldRef::new(&object, shape_of(("", "v1", "ConfigMap")), &errors);
    let entries = object.at(fields::METADATA).at(field);
    match field {
        fields::LABELS => meta::validate_labels(&entries),
        // The path of Kubernetes' message is in the singular.
        _ => {
            let path = fields::ANNOTATIONS.trim_end_matches('s');
            meta::validate_annotations(&entries.with_errors(errors.at(fields::METADATA).at(path)));
        }
    }
    drop((object, entries));
    let messages: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
    match messages.as_slice() {
        [] => Ok(()),
        [message] => Err(message.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

/// Go's name of the type of a value.
fn type_of(value: &Tree) -> &'static str {
    match value {
        Tree::Null => "<nil>",
        other => go_type(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(json: &str) -> Tree {
        setpoint_codec::json::parse(json.as_bytes()).unwrap()
    }

    /// Restores the metadata of an object with one label; returns the metadata, or the error.
    #[track_caller]
    fn check(returned: &str, expected: &str) {
        let original = tree(r#"{"metadata":{"name":"a","uid":"u","generation":2,"labels":{"a b":"old"}}}"#);
        let mut converted = tree(returned);
        let restored = restore_metadata(&original, &mut converted);
        let outcome = restored.map_or_else(
            |error| error,
            |()| {
                let mut json = Vec::new();
                setpoint_schema::write::write_tree(converted.get("metadata").unwrap(), &mut json);
                String::from_utf8(json).unwrap()
            },
        );
        assert_eq!(outcome, expected);
    }

    #[test]
    fn only_labels_and_annotations_are_taken_from_the_converted_object() {
        check(
            r#"{"metadata":{"name":"a","generation":9,"finalizers":["x"],"labels":{"l":"1"},"annotations":{"n":"2"}}}"#,
            r#"{"name":"a","uid":"u","generation":2,"labels":{"l":"1"},"annotations":{"n":"2"}}"#,
        );
        check(
            r#"{"metadata":{"labels":null}}"#,
            r#"{"name":"a","uid":"u","generation":2}"#,
        );
    }

    #[test]
    fn labels_that_change_are_validated() {
        check(
            r#"{"metadata":{"labels":{"a b":"old"}}}"#,
            r#"{"name":"a","uid":"u","generation":2,"labels":{"a b":"old"}}"#,
        );
        check(
            r#"{"metadata":{"labels":{"a":"c d"}}}"#,
            "metadata.labels: Invalid value: \"c d\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        );
        check(
            r#"{"metadata":{"labels":{"a":1}}}"#,
            "metadata.labels[a] must be a string, but is int64 in converted object",
        );
        check(
            r#"{"metadata":{"annotations":[1]}}"#,
            "invalid metadata.annotations of type []interface {} in converted object",
        );
    }

    #[test]
    fn an_object_keeps_its_name_and_its_uid() {
        let original = tree(r#"{"metadata":{"name":"a","uid":"u"}}"#);
        for (converted, expected) in [
            (r#"{"metadata":{"name":"a","uid":"u"}}"#, Ok(())),
            (
                r#"{"metadata":{"name":"b","uid":"u"}}"#,
                Err("must have the same name: a != b"),
            ),
            (
                r#"{"metadata":{"name":"a"}}"#,
                Err("must have the same UID: u != "),
            ),
            (r#"{}"#, Err("must have the same name: a != ")),
        ] {
            let checked = check_identity(&original, &tree(converted));
            assert_eq!(checked, expected.map_err(str::to_owned));
        }
    }
}

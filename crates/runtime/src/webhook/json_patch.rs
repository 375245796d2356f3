//! The difference of two JSON values as a JSON patch (RFC 6902).
//!
//! Objects are compared member by member; a list that differs is replaced as a whole, since its items have no identity.

use serde_json::{Map, Value, json};

/// The operations that turn the first value into the second.
pub(super) fn diff(before: &Value, after: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    compare("", before, after, &mut operations);
    operations
}

fn compare(path: &str, before: &Value, after: &Value, operations: &mut Vec<Value>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => members(path, before, after, operations),
        (before, after) if before == after => {}
        (_, after) => operations.push(json!({"op": "replace", "path": path, "value": after})),
    }
}

fn members(path: &str, before: &Map<String, Value>, after: &Map<String, Value>, operations: &mut Vec<Value>) {
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        operations.push(json!({"op": "remove", "path": child(path, name)}));
    }
    for (name, value) in after {
        match before.get(name) {
            Some(old) => compare(&child(path, name), old, value, operations),
            None => operations.push(json!({"op": "add", "path": child(path, name), "value": value})),
        }
    }
}

/// The JSON pointer of a member, with `~` and `/` in its name escaped.
fn child(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: Value, after: Value, expected: Value) {
        assert_eq!(Value::from(diff(&before, &after)), expected);
    }

    #[test]
    fn only_changed_members_are_in_the_patch() {
        check(json!({"a": {"b": 1}}), json!({"a": {"b": 1}}), json!([]));
        check(
            json!({"a": {"b": 1, "c": 2}, "d": [1]}),
            json!({"a": {"b": 3}, "d": [1, 2], "e": {}}),
            json!([
                {"op": "remove", "path": "/a/c"},
                {"op": "replace", "path": "/a/b", "value": 3},
                {"op": "replace", "path": "/d", "value": [1, 2]},
                {"op": "add", "path": "/e", "value": {}},
            ]),
        );
    }

    #[test]
    fn names_are_escaped() {
        check(
            json!({"labels": {}}),
            json!({"labels": {"a/b~c": "d"}}),
            json!([{"op": "add", "path": "/labels/a~1b~0c", "value": "d"}]),
        );
    }
}

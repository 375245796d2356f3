//! JSON pointers (RFC 6901) into the objects of cases.

use serde_json::Value;

/// The name of a field as a segment of a pointer.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Removes the value at a pointer, if there is one.
pub(crate) fn remove(object: &mut Value, pointer: &str) {
    let Some((parent, last)) = pointer.rsplit_once('/') else {
        return;
    };
    match object.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.shift_remove(&last.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(items)) => {
            if let Some(index) = last.parse::<usize>().ok().filter(|index| *index < items.len()) {
                items.remove(index);
            }
        }
        _ => {}
    }
}

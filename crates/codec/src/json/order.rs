//! JSON with its keys in the declaration order of a shape, from bytes to bytes.

use setpoint_schema::shape::Cardinality;
use setpoint_schema::{Field, Shape};

use super::scan;

/// Writes a JSON object with its keys in the order of the shape. Members that the shape does not have come last.
///
/// The bytes must be well-formed JSON, as stored objects are; values without a shape are copied.
pub fn write_in_order(shape: &Shape, json: &[u8], out: &mut Vec<u8>) {
    let mut members: Vec<(usize, &[u8], &[u8])> = scan::members(json)
        .map_while(Result::ok)
        .map(|(name, value)| (index_of(shape, name), name, value))
        .collect();
    members.sort_by_key(|(index, ..)| *index);
    out.push(b'{');
    for (at, (index, name, value)) in members.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(name);
        out.extend_from_slice(b"\":");
        match shape.members().get(index) {
            Some(field) => write_field(field, value, out),
            None => out.extend_from_slice(value),
        }
    }
    out.push(b'}');
}

fn index_of(shape: &Shape, name: &[u8]) -> usize {
    let name = std::str::from_utf8(name).unwrap_or_default();
    shape.position(name, 0).unwrap_or(usize::MAX)
}

fn write_field(field: &Field, value: &[u8], out: &mut Vec<u8>) {
    match (field.shape(), field.cardinality, value.first()) {
        (Some(shape), Cardinality::One, Some(b'{')) => write_in_order(shape, value, out),
        (Some(shape), Cardinality::List, Some(b'[')) => {
            out.push(b'[');
            for (at, item) in scan::items(value).enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_in_order(shape, item, out);
            }
            out.push(b']');
        }
        _ => out.extend_from_slice(value),
    }
}

#[cfg(test)]
mod tests {
    use setpoint_schema::Pack;

    use super::*;

    #[track_caller]
    fn check(json: &str, expected: &str) {
        let shape = Pack::builtin().shape_of("", "v1", "ConfigMap").unwrap();
        let mut out = Vec::new();
        write_in_order(shape.at(&["metadata"]).unwrap(), json.as_bytes(), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn keys_are_in_declaration_order_at_every_level() {
        check("{}", "{}");
        check(
            r#"{"labels":{"b":"1","a":"2"},"managedFields":[{"apiVersion":"v1","fieldsV1":{"f:a":{}},"manager":"m"},{}],"name":"x","other":[1]}"#,
            r#"{"name":"x","labels":{"b":"1","a":"2"},"managedFields":[{"manager":"m","apiVersion":"v1","fieldsV1":{"f:a":{}}},{}],"other":[1]}"#,
        );
    }
}

//! OpenAPI documents in protobuf, in the messages of gnostic.
//!
//! The messages follow OpenAPI documents closely, so they are tables of members with field number and encoding. Members
//! whose names begin with `x-` are extensions, encoded as text. For a `oneof`, the value decides which message it is.
//!
//! Messages: <https://github.com/google/gnostic-models>, `openapiv2/OpenAPIv2.proto` and `openapiv3/OpenAPIv3.proto`.

use serde_json::Value;

mod v2;
mod v3;

pub(super) use v2::DOCUMENT as V2;
pub(super) use v3::DOCUMENT as V3;

/// A message: its members, and the fields of extensions and of all other members.
#[derive(Debug)]
pub(super) struct Message {
    members: &'static [Member],
    /// The field number of the extensions; zero if there are none.
    extensions: u32,
    /// Field of all other members, each encoded as a pair of name and value.
    additional: Option<(u32, FieldEncoding)>,
}

/// A member's JSON name, its field number and encoding.
type Member = (&'static str, u32, FieldEncoding);

/// How a field is encoded.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldEncoding {
    Text,
    Texts,
    Flag,
    /// A value of any type, as text.
    Any,
    Anys,
    One(&'static Message),
    Many(&'static Message),
    /// A message with this single field.
    In(u32, &'static FieldEncoding),
    ManyIn(u32, &'static FieldEncoding),
    /// A `oneof`, chosen by the value.
    Either(fn(&Value) -> (u32, FieldEncoding)),
    ManyEither(fn(&Value) -> (u32, FieldEncoding)),
    /// A number, a flag or a text, each with its own field number.
    Scalar,
}

/// Encodes an OpenAPI document.
pub(super) fn encode(document: &'static Message, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_message(document, value, &mut out);
    out
}

fn write_message(message: &Message, value: &Value, out: &mut Vec<u8>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        if let Some((_, number, encoding)) = message.members.iter().find(|(own, ..)| own == name) {
            write(*encoding, *number, value, out);
        } else if message.extensions > 0 && name.starts_with("x-") {
            write_pair(message.extensions, name, FieldEncoding::Any, value, out);
        } else if let Some((number, encoding)) = message.additional {
            write_pair(number, name, encoding, value, out);
        }
    }
}

/// Writes a name and its value, as maps are encoded.
fn write_pair(number: u32, name: &str, encoding: FieldEncoding, value: &Value, out: &mut Vec<u8>) {
    let mut pair = Vec::new();
    write_bytes(1, name.as_bytes(), &mut pair);
    write(encoding, 2, value, &mut pair);
    write_bytes(number, &pair, out);
}

fn write(encoding: FieldEncoding, number: u32, value: &Value, out: &mut Vec<u8>) {
    match encoding {
        FieldEncoding::Text => write_bytes(number, value.as_str().unwrap_or_default().as_bytes(), out),
        FieldEncoding::Texts => each(value, |one| write(FieldEncoding::Text, number, one, out)),
        FieldEncoding::Flag => {
            write_varint(u64::from(number) << 3, out);
            out.push(u8::from(value == true));
        }
        FieldEncoding::Any => {
            let mut any = Vec::new();
            write_bytes(2, format!("{value}\n").as_bytes(), &mut any);
            write_bytes(number, &any, out);
        }
        FieldEncoding::Anys => each(value, |one| write(FieldEncoding::Any, number, one, out)),
        FieldEncoding::One(message) => {
            let mut inner = Vec::new();
            write_message(message, value, &mut inner);
            write_bytes(number, &inner, out);
        }
        FieldEncoding::Many(message) => {
            each(value, |one| write(FieldEncoding::One(message), number, one, out))
        }
        FieldEncoding::In(field, encoding) => write_in(*encoding, field, value, number, out),
        FieldEncoding::ManyIn(field, encoding) => {
            each(value, |one| write_in(*encoding, field, one, number, out))
        }
        FieldEncoding::Either(choose) => {
            let (field, encoding) = choose(value);
            write_in(encoding, field, value, number, out);
        }
        FieldEncoding::ManyEither(choose) => each(value, |one| {
            write(FieldEncoding::Either(choose), number, one, out)
        }),
        FieldEncoding::Scalar => write_scalar(number, value, out),
    }
}

/// Writes a message with one field.
fn write_in(encoding: FieldEncoding, field: u32, value: &Value, number: u32, out: &mut Vec<u8>) {
    let mut inner = Vec::new();
    write(encoding, field, value, &mut inner);
    write_bytes(number, &inner, out);
}

/// Field 1 is a number, 2 a flag, 3 a text. Other values are not written.
fn write_scalar(number: u32, value: &Value, out: &mut Vec<u8>) {
    let mut inner = Vec::new();
    match value {
        Value::Bool(_) => write(FieldEncoding::Flag, 2, value, &mut inner),
        Value::String(_) => write(FieldEncoding::Text, 3, value, &mut inner),
        Value::Number(number) => {
            inner.push(1 << 3 | 1);
            inner.extend_from_slice(&number.as_f64().unwrap_or_default().to_le_bytes());
        }
        _ => return,
    }
    write_bytes(number, &inner, out);
}

fn each(value: &Value, write: impl FnMut(&Value)) {
    value.as_array().into_iter().flatten().for_each(write);
}

fn write_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | 2, out);
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    static INNER: Message = Message {
        members: &[("b", 2, FieldEncoding::Flag), ("t", 3, FieldEncoding::Texts)],
        extensions: 9,
        additional: None,
    };
    static OUTER: Message = Message {
        members: &[
            ("inner", 1, FieldEncoding::One(&INNER)),
            ("default", 4, FieldEncoding::Scalar),
        ],
        extensions: 0,
        additional: Some((5, FieldEncoding::Text)),
    };

    #[track_caller]
    fn check(value: Value, expected: &[u8]) {
        assert_eq!(encode(&OUTER, &value), expected, "{value}");
    }

    #[test]
    fn members_are_written_by_number() {
        check(
            json!({"inner": {"b": true, "t": ["x", ""]}}),
            b"\x0a\x07\x10\x01\x1a\x01x\x1a\x00",
        );
    }

    #[test]
    fn extensions_are_pairs_of_name_and_text() {
        check(
            json!({"inner": {"x-a": ["b"]}}),
            b"\x0a\x11\x4a\x0f\x0a\x03x-a\x12\x08\x12\x06[\"b\"]\n",
        );
    }

    #[test]
    fn other_members_are_pairs() {
        check(json!({"k": "v"}), b"\x2a\x06\x0a\x01k\x12\x01v");
    }

    #[test]
    fn a_scalar_has_the_field_of_its_type() {
        check(json!({"default": true}), b"\x22\x02\x10\x01");
        check(json!({"default": "a"}), b"\x22\x03\x1a\x01a");
        check(
            json!({"default": 1}),
            b"\x22\x09\x09\x00\x00\x00\x00\x00\x00\xf0\x3f",
        );
        check(json!({"default": {}}), b"");
    }
}

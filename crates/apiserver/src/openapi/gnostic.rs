//! OpenAPI documents in protobuf, in the messages of gnostic.
//!
//! The messages follow the documents closely, so they are tables: which member has which number and what it is. Members
//! whose names begin with `x-` are extensions, carried as text. Where a message is one of several, the value decides.
//!
//! Messages: <https://github.com/google/gnostic-models>, `openapiv2/OpenAPIv2.proto` and `openapiv3/OpenAPIv3.proto`.

use serde_json::Value;

mod second;
mod third;

pub(super) use second::DOCUMENT as SECOND;
pub(super) use third::DOCUMENT as THIRD;

/// A message: its members, where extensions go, and where everything else goes.
#[derive(Debug)]
pub(super) struct Message {
    members: &'static [Member],
    /// The number of the extensions; zero if there are none.
    extensions: u32,
    /// Members of any other name, each as a pair of its name and its value.
    others: Option<(u32, How)>,
}

/// The member's name in the document, its number, and how it is written.
type Member = (&'static str, u32, How);

/// How a value is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum How {
    Text,
    Texts,
    Flag,
    /// A value of any type, as text.
    Any,
    Anys,
    One(&'static Message),
    Many(&'static Message),
    /// A message that has nothing but this one field.
    In(u32, &'static How),
    ManyIn(u32, &'static How),
    /// One of several, by what the value is.
    Either(fn(&Value) -> (u32, How)),
    ManyEither(fn(&Value) -> (u32, How)),
    /// A number, a flag or a text: each has its own field.
    Plain,
}

/// Writes a document.
pub(super) fn encode(document: &'static Message, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_message(document, value, &mut out);
    out
}

fn write_message(message: &Message, value: &Value, out: &mut Vec<u8>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        if let Some((_, number, how)) = message.members.iter().find(|(own, ..)| own == name) {
            write(*how, *number, value, out);
        } else if message.extensions > 0 && name.starts_with("x-") {
            write_pair(message.extensions, name, How::Any, value, out);
        } else if let Some((number, how)) = message.others {
            write_pair(number, name, how, value, out);
        }
    }
}

/// A name and its value: how maps are written.
fn write_pair(number: u32, name: &str, how: How, value: &Value, out: &mut Vec<u8>) {
    let mut pair = Vec::new();
    write_bytes(1, name.as_bytes(), &mut pair);
    write(how, 2, value, &mut pair);
    write_bytes(number, &pair, out);
}

fn write(how: How, number: u32, value: &Value, out: &mut Vec<u8>) {
    match how {
        How::Text => write_bytes(number, value.as_str().unwrap_or_default().as_bytes(), out),
        How::Texts => each(value, |one| write(How::Text, number, one, out)),
        How::Flag => {
            write_varint(u64::from(number) << 3, out);
            out.push(u8::from(value == true));
        }
        How::Any => {
            let mut any = Vec::new();
            write_bytes(2, format!("{value}\n").as_bytes(), &mut any);
            write_bytes(number, &any, out);
        }
        How::Anys => each(value, |one| write(How::Any, number, one, out)),
        How::One(message) => {
            let mut inner = Vec::new();
            write_message(message, value, &mut inner);
            write_bytes(number, &inner, out);
        }
        How::Many(message) => each(value, |one| write(How::One(message), number, one, out)),
        How::In(field, how) => write_in(*how, field, value, number, out),
        How::ManyIn(field, how) => each(value, |one| write_in(*how, field, one, number, out)),
        How::Either(choose) => {
            let (field, how) = choose(value);
            write_in(how, field, value, number, out);
        }
        How::ManyEither(choose) => each(value, |one| write(How::Either(choose), number, one, out)),
        How::Plain => write_plain(number, value, out),
    }
}

/// A message with one field.
fn write_in(how: How, field: u32, value: &Value, number: u32, out: &mut Vec<u8>) {
    let mut inner = Vec::new();
    write(how, field, value, &mut inner);
    write_bytes(number, &inner, out);
}

/// Field one is a number, two a flag, three a text. Nothing else can be said so.
fn write_plain(number: u32, value: &Value, out: &mut Vec<u8>) {
    let mut inner = Vec::new();
    match value {
        Value::Bool(_) => write(How::Flag, 2, value, &mut inner),
        Value::String(_) => write(How::Text, 3, value, &mut inner),
        Value::Number(plain) => {
            inner.push(1 << 3 | 1);
            inner.extend_from_slice(&plain.as_f64().unwrap_or_default().to_le_bytes());
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
        members: &[("b", 2, How::Flag), ("t", 3, How::Texts)],
        extensions: 9,
        others: None,
    };
    static OUTER: Message = Message {
        members: &[("inner", 1, How::One(&INNER)), ("default", 4, How::Plain)],
        extensions: 0,
        others: Some((5, How::Text)),
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
    fn a_plain_value_stands_in_the_field_of_its_type() {
        check(json!({"default": true}), b"\x22\x02\x10\x01");
        check(json!({"default": "a"}), b"\x22\x03\x1a\x01a");
        check(
            json!({"default": 1}),
            b"\x22\x09\x09\x00\x00\x00\x00\x00\x00\xf0\x3f",
        );
        check(json!({"default": {}}), b"");
    }
}

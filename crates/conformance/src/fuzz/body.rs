//! Fuzzed bodies: a valid object with one or more mutations, or malformed bytes.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use super::request::pick;
use super::{Inputs, Target};

const DEPTH: usize = 20_000;
const LONG: usize = 200_000;

const ODD_TEXTS: &[&str] = &[
    "",
    " ",
    "\u{0}",
    "\u{feff}",
    "\u{202e}abc",
    "💩",
    "Ａ",
    "a\u{300}",
    "\u{fffd}",
    "../..",
    "-1",
    "1e999",
    "NaN",
    "true",
    "null",
    "0x10",
    "1.5",
    "2020-13-45T99:99:99Z",
    "10.0.0.300",
    "::1::",
    "1Ei1",
    "-5m",
    "{{x}}",
    "$(X)",
    "%s%n",
    "<script>",
    "'; --",
    "\r\nX: y",
    "a=b,c",
    "K/8s",
];

const MALFORMED_BODIES: &[&[u8]] = &[
    b"",
    b"{",
    b"}",
    b"[",
    b"null",
    b"true",
    b"1e9999",
    b"\"text\"",
    b"{\"a\":1,}",
    b"{\"a\":01}",
    b"{\"kind\":\"Pod\",\"kind\":\"Pod\"}",
    b"\xef\xbb\xbf{}",
    b"\xff\xfe{\x00}\x00",
    b"{\"a\":\"\xff\xc0\"}",
    b"{\"a\":\"\\ud800\"}",
    b"{\"\\u0000\":1}",
    b"a: &a [*a]",
    b"a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c]",
    b"--- {}\n--- {}",
    b"!!python/object:x {}",
    b"? [a]\n: b",
    b"k8s\x00",
    b"k8s\x00\x0a\xff\xff\xff\xff\x0f",
    b"k8s\x00\x0a\x04\x0a\x02v1\x12\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\xd9\xd9\xf7\xa1\x61a\x9f",
    b"<xml/>",
];

/// A body for a request of this media type.
pub(super) fn build(inputs: &Inputs, target: &Target, media: &str, rng: &mut StdRng) -> Vec<u8> {
    match rng.random_range(0..100) {
        0..8 => MALFORMED_BODIES
            .choose(rng)
            .expect("the list has bodies")
            .to_vec(),
        8..10 => deep(rng),
        10..14 => noise(media, rng),
        14..24 if media.contains("patch") => operations(rng).to_string().into_bytes(),
        _ => encoded(mutated(seed_object(inputs, target, rng), rng), media, rng),
    }
}

/// The corpus object of the target's kind, or sometimes of another kind.
fn seed_object(inputs: &Inputs, target: &Target, rng: &mut StdRng) -> Value {
    let own = inputs
        .entries
        .iter()
        .find(|entry| entry.at == target.collection());
    let entry = match (own, rng.random_bool(0.95)) {
        (Some(own), true) => own,
        _ => inputs.entries.choose(rng).expect("the corpus has kinds"),
    };
    let mut object = entry.object.clone();
    object["metadata"]["name"] = json!(format!("n{}", rng.random_range(0..6)));
    object
}

fn mutated(mut object: Value, rng: &mut StdRng) -> Value {
    let mut again = rng.random_bool(0.9);
    while again {
        mutate(&mut object, rng);
        again = rng.random_bool(0.4);
    }
    object
}

/// Descends at random and changes the value it stops at.
fn mutate(value: &mut Value, rng: &mut StdRng) {
    let stops = rng.random_bool(0.2);
    match value {
        Value::Object(fields) if !fields.is_empty() && !stops => {
            let index = rng.random_range(0..fields.len());
            if rng.random_bool(0.1) {
                let name = fields.keys().nth(index).cloned().unwrap_or_default();
                fields.shift_remove(&name);
            } else if rng.random_bool(0.1) {
                fields.insert(text(rng), odd_value(rng));
            } else if let Some(field) = fields.values_mut().nth(index) {
                mutate(field, rng);
            }
        }
        Value::Array(items) if !items.is_empty() && !stops => {
            let index = rng.random_range(0..items.len());
            if rng.random_bool(0.15) {
                let copy = items[index].clone();
                items.push(copy);
            } else {
                mutate(&mut items[index], rng);
            }
        }
        other => *other = odd_value(rng),
    }
}

fn odd_value(rng: &mut StdRng) -> Value {
    match rng.random_range(0..14) {
        0 => json!(null),
        1 => json!(rng.random_bool(0.5)),
        2 => json!(rng.random::<i64>()),
        3 => json!(u64::MAX),
        4 => json!(rng.random::<f64>() * 1e300),
        5 => json!(-1),
        6 => json!([]),
        7 => json!({}),
        8 => json!([[[[null]]], {"a": []}]),
        9 => json!({text(rng): text(rng), "name": null}),
        10 => json!("y".repeat(rng.random_range(1..LONG))),
        11 => json!(vec![0; rng.random_range(1..500)]),
        _ => json!(text(rng)),
    }
}

fn text(rng: &mut StdRng) -> String {
    match rng.random_bool(0.8) {
        true => pick(ODD_TEXTS, rng).to_owned(),
        false => (0..rng.random_range(0..12))
            .map(|_| rng.random::<char>())
            .collect(),
    }
}

fn operations(rng: &mut StdRng) -> Value {
    let paths = [
        "",
        "/",
        "/metadata",
        "/metadata/name",
        "/metadata/labels/a",
        "/spec",
        "/spec/-",
        "/a/0",
        "/~2",
        "metadata",
        "/kind",
    ];
    let verbs = ["add", "remove", "replace", "move", "copy", "test", "odd"];
    let count = rng.random_range(0..5);
    let operations = (0..count).map(|_| {
        json!({"op": pick(&verbs, rng), "path": pick(&paths, rng), "from": pick(&paths, rng), "value": odd_value(rng)})
    });
    operations.collect()
}

fn encoded(object: Value, media: &str, rng: &mut StdRng) -> Vec<u8> {
    let mut bytes = object.to_string().into_bytes();
    if media.contains("protobuf") && rng.random_bool(0.7) {
        let mut wrapped = b"k8s\x00".to_vec();
        wrapped.append(&mut bytes);
        return wrapped;
    }
    if rng.random_bool(0.05) {
        bytes.truncate(rng.random_range(0..=bytes.len()));
    } else if rng.random_bool(0.05) && !bytes.is_empty() {
        let index = rng.random_range(0..bytes.len());
        bytes[index] = rng.random();
    }
    bytes
}

/// Nesting deep enough to overflow the stack of a parser without a limit.
fn deep(rng: &mut StdRng) -> Vec<u8> {
    let (open, close) = if rng.random_bool(0.5) {
        ("[", "]")
    } else {
        ("{\"a\":", "}")
    };
    let depth = rng.random_range(1..DEPTH);
    let inside = format!("{}1{}", open.repeat(depth), close.repeat(depth));
    match rng.random_bool(0.5) {
        true => inside.into_bytes(),
        false => format!("{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"n1\"}},\"data\":{inside}}}").into_bytes(),
    }
}

/// Random bytes, after the encoding's magic prefix if it has one.
fn noise(media: &str, rng: &mut StdRng) -> Vec<u8> {
    let mut bytes = if media.contains("protobuf") {
        b"k8s\x00".to_vec()
    } else {
        Vec::new()
    };
    let length = rng.random_range(1..2000);
    bytes.extend((0..length).map(|_| rng.random::<u8>()));
    bytes
}

//! Protobuf of every kind: each published fixture decodes to its JSON and is written back byte for byte, and no input,
//! cut short or made up, does more than fail.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::sync::LazyLock;

use proptest::prelude::*;
use setpoint_api::call::Encoding;
use setpoint_codec::protobuf::{self, TypeMeta, envelope, frame, list};
use setpoint_codec::{FieldValidation, json, strict};
use setpoint_reference::Golden;
use setpoint_schema::{Map, Pack, Shape, Tree, prune, write_into};

struct Fixture {
    name: String,
    shape: &'static Shape,
    json: Vec<u8>,
    protobuf: Vec<u8>,
}

impl Fixture {
    fn of(golden: Golden) -> Self {
        let (group, version, kind) = golden.gvk();
        Fixture {
            shape: Pack::builtin().shape_of(group, version, kind).unwrap(),
            json: golden.json,
            protobuf: golden.protobuf,
            name: golden.name,
        }
    }

    fn tree(&self) -> Tree {
        json::parse(&self.json).unwrap()
    }
}

/// Every golden object, with its shape.
fn fixtures() -> Vec<Fixture> {
    setpoint_reference::golden()
        .into_iter()
        .map(Fixture::of)
        .collect()
}

/// The kinds whose protobuf is damaged byte by byte: the largest built-in one, and one with raw JSON in it.
const DAMAGED: [(&str, &str, &str); 2] = [
    ("", "v1", "Pod"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
];

/// The protobuf of the damaged kinds, read once: a property runs hundreds of times.
static INTACT: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    DAMAGED.map(|(group, version, kind)| Golden::find(group, version, kind).unwrap().protobuf)
});

/// A tree as canonical JSON, so that trees which mean the same are the same text.
fn canonical(shape: &Shape, tree: &Tree) -> String {
    let mut out = Vec::new();
    write_into(shape, tree, &mut out);
    String::from_utf8(out).unwrap()
}

/// A decoded object with the type of its envelope.
fn typed((type_meta, mut tree): (TypeMeta, Tree)) -> Tree {
    if !type_meta.kind.is_empty() {
        tree.set(&["kind"], type_meta.kind);
        tree.set(&["apiVersion"], type_meta.api_version);
    }
    tree
}

#[test]
fn a_fixture_decodes_to_its_json() {
    for fixture in fixtures() {
        let tree = typed(protobuf::decode(&fixture.protobuf, fixture.shape).unwrap());
        assert_eq!(
            canonical(fixture.shape, &tree),
            canonical(fixture.shape, &fixture.tree()),
            "{}",
            fixture.name
        );
    }
}

#[test]
fn a_fixture_is_written_byte_for_byte() {
    for fixture in fixtures() {
        let written = protobuf::encode_object(fixture.shape, &fixture.tree());
        assert_eq!(different(&written, &fixture.protobuf), None, "{}", fixture.name);
        let opened = envelope::open(&fixture.protobuf).unwrap();
        let message = protobuf::encode_json(fixture.shape, &fixture.json).unwrap();
        assert_eq!(message, opened.message, "{}", fixture.name);
        assert_eq!(
            envelope::seal(&opened.type_meta, &message),
            fixture.protobuf,
            "{}",
            fixture.name
        );
    }
}

/// Where two byte strings begin to differ, and how they go on there.
fn different<'a>(left: &'a [u8], right: &'a [u8]) -> Option<(usize, String, String)> {
    let at = left.iter().zip(right).position(|(left, right)| left != right);
    let at = at.or((left.len() != right.len()).then(|| left.len().min(right.len())))?;
    let shown = |bytes: &[u8]| {
        bytes[at.saturating_sub(8)..bytes.len().min(at + 40)]
            .escape_ascii()
            .to_string()
    };
    Some((at, shown(left), shown(right)))
}

#[test]
fn a_message_without_content_survives_a_round_trip() {
    for fixture in fixtures() {
        let empty = Tree::Map(Map::default());
        let message = protobuf::encode(fixture.shape, &empty);
        let mut map = Map::default();
        protobuf::decode_message(&message, fixture.shape, &mut map).unwrap();
        assert_eq!(
            canonical(fixture.shape, &Tree::Map(map)),
            canonical(fixture.shape, &empty),
            "{}",
            fixture.name
        );
    }
}

#[test]
fn a_fixture_passes_strict_decoding() {
    for fixture in fixtures().iter().filter(|fixture| fixture.shape.type_meta) {
        let decoded = strict::decode(
            &fixture.protobuf,
            Encoding::Protobuf,
            fixture.shape,
            FieldValidation::Strict,
        );
        let tree = decoded.map(|decoded| decoded.tree);
        assert_eq!(
            tree.map(|tree| canonical(fixture.shape, &tree)).as_deref(),
            Ok(canonical(fixture.shape, &fixture.tree()).as_str()),
            "{}",
            fixture.name
        );
    }
}

#[test]
fn a_fixture_cut_short_at_any_length_is_an_error_or_less_of_it() {
    for fixture in fixtures() {
        for length in 0..fixture.protobuf.len() {
            let _ = protobuf::decode(&fixture.protobuf[..length], fixture.shape);
        }
        let message = envelope::open(&fixture.protobuf).unwrap().message;
        let cut =
            |length: usize| protobuf::decode_message(&message[..length], fixture.shape, &mut Map::default());
        let errors = (0..message.len()).filter(|length| cut(*length).is_err()).count();
        assert!(
            errors * 2 > message.len() || message.len() < 20,
            "{}",
            fixture.name
        );
    }
}

#[test]
fn a_list_and_a_frame_of_a_fixture_hold_it() {
    for fixture in fixtures() {
        let opened = envelope::open(&fixture.protobuf).unwrap();
        let mut stream = Vec::new();
        frame::write("MODIFIED", &opened.type_meta, opened.message, &mut stream);
        let (only, rest) = frame::split(&stream).unwrap();
        assert_eq!(
            (frame::open(only).unwrap().1, rest),
            (&fixture.protobuf[..], &b""[..])
        );
        let Some(gvk) = &fixture.shape.gvk else { continue };
        let kind = format!("{}List", gvk.kind);
        let shape = Pack::builtin().shape_of(&gvk.group, &gvk.version, &kind);
        let Some(shape) = shape.filter(|list| list.member("items").is_some()) else {
            continue;
        };
        let list = list::write(&TypeMeta::new("v1", &kind), b"", &[opened.message; 2]);
        let (_, tree) = protobuf::decode(&list, shape).unwrap();
        let mut one = fixture.tree();
        one.take(&["kind"]);
        one.take(&["apiVersion"]);
        let items = tree.get("items").and_then(Tree::as_list).unwrap();
        assert_eq!(items.len(), 2);
        assert_eq!(
            canonical(fixture.shape, &items[1]),
            canonical(fixture.shape, &one),
            "{kind}"
        );
    }
}

#[test]
fn partial_metadata_of_every_fixture_is_cut_from_its_message() {
    let partial = Pack::builtin()
        .shape_of("meta.k8s.io", "v1", "PartialObjectMetadata")
        .unwrap();
    let metadata = |shape: &Shape| shape.at(&["metadata"]).map(|meta| meta.id.clone());
    for fixture in fixtures() {
        if metadata(fixture.shape) != metadata(partial) {
            continue;
        }
        let message = envelope::open(&fixture.protobuf).unwrap().message;
        let expected = protobuf::encode(partial, &fixture.tree());
        assert_eq!(
            list::partial_metadata(message),
            Some(&expected[..]),
            "{}",
            fixture.name
        );
    }
}

/// The shapes that have every special type between them.
fn any_shape() -> impl Strategy<Value = &'static Shape> {
    let shapes: Vec<_> = Pack::builtin()
        .shapes()
        .filter(|shape| protobuf::has_protobuf_form(shape))
        .collect();
    proptest::sample::select(shapes)
}

proptest! {
    #[test]
    fn random_bytes_never_panic(shape in any_shape(), bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut map = Map::default();
        if protobuf::decode_message(&bytes, shape, &mut map).is_ok() {
            protobuf::encode(shape, &Tree::Map(map));
        }
        let _ = protobuf::decode(&[b"k8s\0", &bytes[..]].concat(), shape);
        let _ = frame::open(&bytes);
        let _ = list::partial_metadata(&bytes);
    }

    /// Bytes that look like fields get deeper than plain noise does.
    #[test]
    fn made_up_fields_never_panic(shape in any_shape(), bytes in made_up(4)) {
        let mut map = Map::default();
        if protobuf::decode_message(&bytes, shape, &mut map).is_ok() {
            let mut tree = Tree::Map(map);
            let before = tree.clone();
            prop_assert!(prune(shape, &mut tree).is_empty());
            prop_assert!(tree.semantic_eq(&before));
            let again = protobuf::encode(shape, &tree);
            let mut second = Map::default();
            protobuf::decode_message(&again, shape, &mut second).unwrap();
            prop_assert_eq!(protobuf::encode(shape, &Tree::Map(second)), again);
        }
    }

    #[test]
    fn a_fixture_with_a_changed_byte_never_panics(seed in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = INTACT[seed.index(2)].clone();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        for (group, version, kind) in DAMAGED {
            let shape = Pack::builtin().shape_of(group, version, kind).unwrap();
            let _ = strict::decode(&bytes, Encoding::Protobuf, shape, FieldValidation::Strict);
        }
    }
}

/// Messages of low numbers with numbers, text and messages in them.
fn made_up(depth: u32) -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..6),
        Just(b"{\"a\":1}".to_vec()),
        Just(vec![8, 1]),
        Just(Vec::new()),
    ];
    leaf.prop_recursive(depth, 64, 8, |inner| {
        prop::collection::vec((1u8..32, 0u8..3, inner), 0..8).prop_map(|fields| {
            let mut out = Vec::new();
            for (number, wire, content) in fields {
                let tag = u16::from(number) << 3;
                match wire {
                    0 => out.extend([
                        (tag as u8 & 0x7f) | 0x80,
                        (tag >> 7) as u8,
                        content.len() as u8 & 0x7f,
                    ]),
                    _ if content.len() < 128 => {
                        out.extend([(tag as u8 & 0x7f) | 0x82, (tag >> 7) as u8, content.len() as u8]);
                        out.extend(content);
                    }
                    _ => {}
                }
            }
            out
        })
    })
}

//! The bytes of every kind: each published fixture reads without a problem and is written back as it was.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use serde::Deserialize;
use setpoint_codec::{json, typed};
use setpoint_reference::Golden;
use setpoint_schema::{EmptyCollections, Pack, Shape, Tree, prune, write, write_into};

/// Every golden object as JSON, with its name and its shape.
fn fixtures() -> Vec<(String, Vec<u8>, &'static Shape)> {
    let with_shape = |golden: Golden| {
        let (group, version, kind) = golden.gvk();
        let shape = Pack::builtin().shape_of(group, version, kind);
        let shape = shape.unwrap_or_else(|| panic!("no shape of {}", golden.name));
        (golden.name, golden.json, shape)
    };
    setpoint_reference::golden().into_iter().map(with_shape).collect()
}

#[test]
fn a_fixture_has_no_problems_and_is_written_unchanged() {
    for (name, bytes, shape) in fixtures() {
        let mut tree = json::parse(&bytes).unwrap();
        let problems = prune(shape, &mut tree);
        assert!(problems.is_empty(), "{name}: {problems:?}");
        let mut out = Vec::new();
        write_into(shape, &tree, &mut out);
        let written = String::from_utf8(json::indent(&out)).unwrap();
        assert_eq!(written, String::from_utf8(bytes).unwrap(), "{name}");
    }
}

#[test]
fn a_shuffled_fixture_is_written_in_order() {
    for (name, bytes, shape) in fixtures() {
        let mut tree = json::parse(&bytes).unwrap();
        reverse(shape, &mut tree);
        prune(shape, &mut tree);
        let mut out = Vec::new();
        write_into(shape, &tree, &mut out);
        assert_eq!(
            String::from_utf8(json::indent(&out)).unwrap(),
            String::from_utf8(bytes).unwrap(),
            "{name}"
        );
    }
}

/// Turns the order of every object around, but for raw JSON, which keeps the order it came in.
fn reverse(shape: &Shape, tree: &mut Tree) {
    let Tree::Map(map) = tree else { return };
    map.pairs_mut().reverse();
    for (key, value) in map.iter_mut() {
        let Some(of) = shape.member(key).and_then(|member| member.shape()) else {
            continue;
        };
        match value {
            Tree::Map(_) => reverse(of, value),
            Tree::List(items) => items.iter_mut().for_each(|item| reverse(of, item)),
            _ => {}
        }
    }
}

#[test]
fn a_stamp_marks_where_the_resource_version_was() {
    for (name, bytes, shape) in fixtures() {
        let tree = json::parse(&bytes).unwrap();
        let mut plain = Vec::new();
        write_into(shape, &tree, &mut plain);
        let written = write(shape, &tree, EmptyCollections::Keep);
        let Some(stamp) = written.resource_version_offset else {
            assert_eq!(written.bytes, plain, "{name}");
            continue;
        };
        let mut stamped = written.bytes.clone();
        let version = tree.str_at(&["metadata", "resourceVersion"]).unwrap();
        stamped.splice(stamp as usize..stamp as usize, version.bytes());
        assert_eq!(
            String::from_utf8(stamped).unwrap(),
            String::from_utf8(plain).unwrap(),
            "{name}"
        );
        let body = [b"{", &written.bytes[written.body_offset as usize..]].concat();
        let body = json::parse(&body).unwrap();
        assert!(
            body.get("kind").is_none() && body.get("metadata").is_some(),
            "{name}"
        );
    }
}

#[test]
fn a_fixture_survives_a_round_trip_through_its_type() {
    use k8s_openapi::api::{
        apps::v1::Deployment, batch::v1::CronJob, core::v1::Node, core::v1::Pod, core::v1::Service,
    };
    let all = fixtures();
    let find = |name: &str| all.iter().find(|(known, _, _)| known == name).unwrap();
    for (name, check) in [
        ("core.v1.Pod", round_trip::<Pod> as fn(&str, &[u8], &Shape)),
        ("core.v1.Node", round_trip::<Node>),
        ("core.v1.Service", round_trip::<Service>),
        ("apps.v1.Deployment", round_trip::<Deployment>),
        ("batch.v1.CronJob", round_trip::<CronJob>),
    ] {
        let (name, bytes, shape) = find(name);
        check(name, bytes, shape);
    }
}

fn round_trip<T: for<'de> Deserialize<'de> + serde::Serialize + PartialEq + std::fmt::Debug>(
    name: &str,
    bytes: &[u8],
    shape: &Shape,
) {
    let tree = json::parse(bytes).unwrap();
    let from_tree: T = typed::from_tree(&tree).unwrap();
    let from_json: T = typed::from_json(bytes).unwrap();
    assert_eq!(from_tree, from_json, "{name}");
    let mut out = Vec::new();
    write_into(shape, &typed::to_tree(&from_tree).unwrap(), &mut out);
    let again: T = typed::from_json(&out).unwrap();
    assert_eq!(again, from_tree, "{name}");
}

//! A definition makes kinds, and those keep the rules of its schema.

use super::*;
use setpoint_api::field::Errors;

const DEFINITION: &str = r#"{
  "spec": {"group": "example.com", "scope": "Namespaced",
    "names": {"plural": "things", "kind": "Thing", "listKind": "ThingList", "shortNames": ["th"]},
    "versions": [
      {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
       "schema": {"openAPIV3Schema": {"type": "object", "properties": {
          "spec": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "default": 2}}},
          "status": {"type": "object", "properties": {"ok": {"type": "boolean"}}}}}}},
      {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}"#;

fn kinds() -> Vec<Arc<dyn Kind>> {
    kinds_of(&setpoint_codec::json::parse(DEFINITION.as_bytes()).unwrap())
}

fn decoded(json: &str) -> Decoded {
    let things = &kinds()[0];
    things
        .decode(json.as_bytes(), Encoding::Json, FieldValidation::Warn)
        .unwrap()
}

#[test]
fn each_served_version_is_a_kind_and_all_share_one_home() {
    let kinds = kinds();
    let versions: Vec<&str> = kinds
        .iter()
        .map(|kind| kind.about().gvr.version.as_str())
        .collect();
    assert_eq!(versions, ["v1", "v2"]);
    assert!(kinds.iter().all(|kind| kind.about().home.version == "v1"));
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let decoded = decoded(
        r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"n":1,"x":1}}"#,
    );
    assert_eq!(decoded.warnings, [r#"unknown field "spec.x""#]);
    assert!(decoded.tree.at(&["spec", "x"]).is_none());
}

#[test]
fn defaults_come_in_and_rules_hold() {
    let things = &kinds()[0];
    let mut tree = decoded(
        r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"d"},"spec":{}}"#,
    )
    .tree;
    things.take_in(&mut tree).unwrap();
    assert_eq!(tree.at(&["spec", "n"]), Some(&Tree::Int(2)));
    tree.set(&["spec", "n"], 0);
    let errors = Errors::default();
    things.validate(&tree, &errors);
    let found: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        ["spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 1"]
    );
}

#[test]
fn another_version_shows_the_same_object_under_its_own_name() {
    let kinds = kinds();
    let json = br#"{"kind":"Thing","apiVersion":"example.com/v1","metadata":{"name":"a","namespace":"d","resourceVersion":"7"},"spec":{"n":3}}"#;
    let stored = kinds[0]
        .stored(Key::new("d", "a"), ResourceVersion(7), Bytes::from_static(json))
        .unwrap();
    let shown = kinds[1].present(&Arc::new(stored)).unwrap();
    let text = String::from_utf8_lossy(shown.json()).into_owned();
    assert!(text.contains(r#""apiVersion":"example.com/v2""#), "{text}");
    assert!(text.contains(r#""resourceVersion":"7""#), "{text}");
    assert!(text.contains(r#""spec":{"n":3}"#), "{text}");
}

//! A CRD's kinds, and the rules of its schema.

use std::time::Duration;

use super::*;
use crate::kind::Kind;
use setpoint_api::field::Errors;

const CRD: &str = r#"{
  "spec": {"group": "example.com", "scope": "Namespaced",
    "names": {"plural": "things", "kind": "Thing", "listKind": "ThingList", "shortNames": ["th"]},
    "versions": [
      {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
       "schema": {"openAPIV3Schema": {"type": "object", "properties": {
          "spec": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "default": 2}}},
          "status": {"type": "object", "properties": {"ok": {"type": "boolean"}}}}}}},
      {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object",
          "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}}}}]}}"#;

fn source(crd: &str) -> Arc<StoredCrd> {
    Arc::new(StoredCrd::new(&Bytes::copy_from_slice(crd.as_bytes())))
}

fn facts() -> RequestFacts {
    RequestFacts {
        now: "2026-01-02T03:04:05Z".parse().unwrap(),
        user: Arc::new(setpoint_api::User::component("tester")),
        event_ttl: Duration::from_secs(3600),
        allow_privileged: false,
    }
}

fn kinds() -> Vec<Arc<dyn Kind>> {
    kinds_of(&source(CRD))
}

fn decoded(json: &str) -> DecodedObject {
    let things = &kinds()[0];
    things
        .decode(json.as_bytes(), Encoding::Json, FieldValidation::Warn)
        .unwrap()
}

fn custom() -> Arc<Versions> {
    let crd = source(CRD);
    let lazy = |version: &str| (version.into(), lazy_schema::LazySchema::new(&crd, version));
    Arc::new(Versions {
        schemas: vec![lazy("v1"), lazy("v2")],
        stored: "v1".into(),
        converter: versions::Converter::None,
    })
}

#[test]
fn a_schema_is_compiled_when_it_is_first_needed() {
    let versions = custom();
    assert!(!versions.schema_at(0).is_compiled());
    assert!(versions.schema_at(0).compiled().has_defaults);
    assert!(versions.schema_at(0).is_compiled() && !versions.schema_at(1).is_compiled());
}

#[test]
fn each_served_version_is_a_kind_and_all_share_one_storage_resource() {
    let kinds = kinds();
    let versions: Vec<&str> = kinds
        .iter()
        .map(|kind| kind.info().gvr.version.as_str())
        .collect();
    assert_eq!(versions, ["v1", "v2"]);
    assert!(kinds.iter().all(|kind| kind.info().storage.version == "v1"));
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
fn defaults_are_set_and_rules_are_enforced() {
    let things = &kinds()[0];
    let mut tree = decoded(
        r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"d"},"spec":{}}"#,
    )
    .tree;
    things.prepare_input(&mut tree).unwrap();
    assert_eq!(tree.at(&["spec", "n"]), Some(&Tree::Int(2)));
    tree.set(&["spec", "n"], 0);
    let errors = Errors::default();
    things.validate(&tree, &facts(), &errors);
    let found: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        ["spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 1"]
    );
}

#[test]
fn another_version_shows_the_same_object_under_its_own_name() {
    let kinds = kinds();
    let json = br#"{"kind":"Thing","apiVersion":"example.com/v1","metadata":{"name":"a","namespace":"d","resourceVersion":"7"},"spec":{"n":3},"status":{"ok":true}}"#;
    let stored = kinds[0]
        .stored(Key::new("d", "a"), ResourceVersion(7), Bytes::from_static(json))
        .unwrap();
    let shown = kinds[1].to_request_version(&Arc::new(stored)).unwrap();
    let text = String::from_utf8_lossy(shown.json()).into_owned();
    assert!(text.contains(r#""apiVersion":"example.com/v2""#), "{text}");
    assert!(text.contains(r#""resourceVersion":"7""#), "{text}");
    assert!(text.ends_with(r#""spec":{"n":3}}"#), "{text}");
}

#[test]
fn an_object_is_in_the_request_version_and_is_stored_in_the_storage_version() {
    let kinds = kinds();
    let body =
        r#"{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"a"},"spec":{"n":7,"x":1}}"#;
    let decoded = kinds[1]
        .decode(body.as_bytes(), Encoding::Json, FieldValidation::Warn)
        .unwrap();
    assert_eq!(decoded.warnings, [r#"unknown field "spec.x""#]);
    let mut tree = decoded.tree;
    tree.set(&["status", "ok"], true);
    kinds[1].prepare_input(&mut tree).unwrap();
    assert_eq!(tree.str_at(&["apiVersion"]), Some("example.com/v2"));
    let text = String::from_utf8(kinds[0].write(&tree).unwrap().bytes).unwrap();
    assert!(text.contains(r#""apiVersion":"example.com/v1""#), "{text}");
    assert!(text.contains(r#""status":{"ok":true}"#), "{text}");
}

/// A kind in two versions, between which a webhook converts.
const CONVERTED_BY_WEBHOOK: &str = r#"{"spec": {"group": "example.com", "names": {"plural": "things", "kind": "Thing"},
    "conversion": {"strategy": "Webhook"}, "versions": [
    {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
    {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}"#;

/// The registry calls the webhook before; an object that is not converted would be wrong data.
#[test]
fn an_object_that_its_webhook_has_not_converted_is_an_error() {
    let kinds = kinds_of(&source(CONVERTED_BY_WEBHOOK));
    let json =
        br#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","resourceVersion":"7"}}"#;
    let stored = kinds[0]
        .stored(Key::new("", "a"), ResourceVersion(7), Bytes::from_static(json))
        .unwrap();
    let stored = Arc::new(stored);
    assert!(kinds[0].to_request_version(&stored).is_ok() && kinds[0].decode_stored(&stored).is_ok());
    let message = "example.com/v1, Kind=Thing has not been converted by its webhook";
    assert_eq!(
        kinds[1].to_request_version(&stored).unwrap_err().to_string(),
        message
    );
    assert_eq!(kinds[1].decode_stored(&stored).unwrap_err().to_string(), message);
    let other = kinds[0].decode_stored(&stored).unwrap();
    assert!(kinds[0].write(&other).is_ok());
    let other = r#"{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"a"}}"#;
    let failed = kinds[0].write(&serde_json::from_str(other).unwrap()).unwrap_err();
    assert_eq!(
        failed.to_string(),
        "example.com/v2, Kind=Thing has not been converted by its webhook"
    );
}

#[test]
fn an_object_is_in_its_version_whatever_fields_come_before_its_kind() {
    let kinds = kinds_of(&source(CONVERTED_BY_WEBHOOK));
    let json =
        br#"{"aaa":1,"apiVersion":"example.com/v1","hostPort":"h:1","kind":"Thing","metadata":{"name":"a"}}"#;
    let stored = kinds[0]
        .stored(Key::new("", "a"), ResourceVersion(7), Bytes::from_static(json))
        .unwrap();
    let is_other = |kind: &Arc<dyn Kind>| kind.webhook_conversion().unwrap().is_other_version(&stored);
    assert_eq!((is_other(&kinds[0]), is_other(&kinds[1])), (false, true));
}

fn one_kind(version: &str) -> Arc<dyn Kind> {
    let crd = format!(
        r#"{{"spec": {{"group": "example.com", "scope": "Cluster", "names": {{"plural": "things", "kind": "Thing"}},
            "versions": [{{"name": "v1", "served": true, "storage": true, {version}}}]}}}}"#
    );
    kinds_of(&source(&crd)).remove(0)
}

#[track_caller]
fn check(kind: &dyn Kind, body: &str, expected: &[&str]) {
    let body =
        format!(r#"{{"apiVersion":"example.com/v1","kind":"Thing","metadata":{{"name":"a"}},{body}}}"#);
    let decoded = kind.decode(body.as_bytes(), Encoding::Json, FieldValidation::Strict);
    let found: Vec<String> = match decoded {
        Err(error) => vec![error.to_string()],
        Ok(decoded) => {
            let mut tree = decoded.tree;
            kind.prepare_input(&mut tree).unwrap();
            let errors = Errors::default();
            kind.validate(&tree, &facts(), &errors);
            errors.into_vec().iter().map(ToString::to_string).collect()
        }
    };
    assert_eq!(found, expected);
}

#[test]
fn an_embedded_object_is_validated_like_every_object() {
    let kind = one_kind(
        r#""schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true}}}}}}}"#,
    );
    let object = |object: &str| format!(r#""spec":{{"list":[{object}]}}"#);
    check(
        &*kind,
        &object(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"x":1}"#),
        &[],
    );
    check(
        &*kind,
        &object(r#"{"kind":"P_d","metadata":{"labels":{"a b":"c"}}}"#),
        &[
            "spec.list[0].apiVersion: Required value",
            "spec.list[0].kind: Invalid value: \"P_d\": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
            "spec.list[0].metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ],
    );
    check(
        &*kind,
        &object(r#"{"apiVersion":"v1","kind":5}"#),
        &[
            r#"Thing in version "v1" cannot be handled as a Thing: spec.list[0].kind: Invalid value: 5: must be a string"#,
        ],
    );
    check(
        &*kind,
        &object(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"bogus":1}}"#),
        &[
            r#"Thing in version "v1" cannot be handled as a Thing: strict decoding error: unknown field "spec.list[0].metadata.bogus""#,
        ],
    );
}

#[test]
fn the_fields_of_a_scale_are_validated() {
    let kind = one_kind(
        r#""subresources": {"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.s"}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}"#,
    );
    check(&*kind, r#""spec":{"n":3},"status":{"n":2,"s":"a=b"}"#, &[]);
    check(
        &*kind,
        r#""spec":{"n":-3},"status":{"n":3000000000,"s":5}"#,
        &[
            ".spec.n: Invalid value: -3: should be a non-negative integer",
            ".status.n: Invalid value: 3000000000: should be less than or equal to 2147483647",
            r#".status.s: Invalid value: "": .status.s accessor error: 5 is of the type int64, expected string"#,
        ],
    );
}

#[test]
fn new_finalizers_with_bad_names_are_warned_of() {
    let kind = &kinds()[0];
    let object = |names: &str| {
        let json = format!(r#"{{"metadata":{{"finalizers":[{names}]}}}}"#);
        setpoint_codec::json::parse(json.as_bytes()).unwrap()
    };
    let (old, new) = (
        object(r#""old""#),
        object(r#""old","orphan","a.b/c","mine","a.b""#),
    );
    assert_eq!(
        kind.warnings(&new, Some(&old)),
        [
            r#"metadata.finalizers: "a.b": prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers"#,
            r#"metadata.finalizers: "mine": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"#,
        ]
    );
}

#[test]
fn a_deprecated_version_names_the_best_one_instead() {
    let crd = r#"{"spec": {"group": "example.com", "names": {"plural": "things", "kind": "Thing"}, "versions": [
        {"name": "v1alpha1", "served": true, "storage": false, "deprecated": true},
        {"name": "v1beta1", "served": true, "storage": false},
        {"name": "v1", "served": true, "storage": true},
        {"name": "v2", "served": false, "storage": false},
        {"name": "v3", "served": true, "storage": false, "deprecated": true, "deprecationWarning": "go away"}]}}"#;
    let kinds = kinds_of(&source(crd));
    let warnings: Vec<Option<&str>> = kinds
        .iter()
        .map(|kind| kind.info().deprecation_warning.as_deref())
        .collect();
    assert_eq!(
        warnings,
        [
            Some("example.com/v1alpha1 Thing is deprecated; use example.com/v1 Thing"),
            None,
            None,
            Some("go away")
        ]
    );
}

#[test]
fn rules_are_evaluated_on_the_old_and_the_new_object() {
    let kind = one_kind(
        r#""schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object",
            "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": [{"rule": "self.n >= oldSelf.n"}]}}}}"#,
    );
    check(&*kind, r#""spec":{"n":1}"#, &[]);
    let object = |n: i64| {
        let json = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Thing","metadata":{{"name":"a","resourceVersion":"1"}},"spec":{{"n":{n}}}}}"#
        );
        setpoint_codec::json::parse(json.as_bytes()).unwrap()
    };
    let (old, new) = (object(5), object(4));
    let errors = Errors::default();
    let update = UpdateContext {
        old: &old,
        subresource: None,
        facts: &facts(),
    };
    kind.validate_update(&new, &update, &errors);
    let found: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
    assert_eq!(found, ["spec: Invalid value: failed rule: self.n >= oldSelf.n"]);
}

#[test]
fn the_first_error_of_metadata_is_that_of_its_first_key() {
    let kind = one_kind(r#""schema": {"openAPIV3Schema": {"type": "object"}}"#);
    let json =
        r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"labels":[],"annotations":{"a":true}}}"#;
    let tree = setpoint_codec::json::parse(json.as_bytes()).unwrap();
    let error = kind.conform(tree, FieldValidation::Ignore).unwrap_err();
    let expected = "json: cannot unmarshal bool into Go struct field ObjectMeta.annotations of type string";
    assert_eq!(error.cause(), expected);
}

#[test]
fn errors_of_updated_metadata_are_listed_as_often_as_upstream_does() {
    let kind = one_kind(r#""schema": {"openAPIV3Schema": {"type": "object"}}"#);
    let object = |metadata: &str| {
        let json = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Thing","metadata":{{"name":"a","resourceVersion":"1",{metadata}}}}}"#
        );
        setpoint_codec::json::parse(json.as_bytes()).unwrap()
    };
    let (old, new) = (
        object(r#""uid":"u""#),
        object(r#""uid":"v","labels":{"a":"b c"}"#),
    );
    let errors = Errors::default();
    let update = UpdateContext {
        old: &old,
        subresource: None,
        facts: &facts(),
    };
    kind.validate_update(&new, &update, &errors);
    let found = errors.into_vec();
    let count = |path: &str| found.iter().filter(|error| error.path == path).count();
    assert_eq!((count("metadata.labels"), count("metadata.uid")), (3, 2));
}

#[test]
fn rules_are_not_evaluated_on_an_invalid_object() {
    let kind = one_kind(
        r#""schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {
            "spec": {"type": "object"}, "other": {"type": "string"}}, "x-kubernetes-validations": [{"rule": "false"}]}}"#,
    );
    check(
        &*kind,
        r#""other":"a""#,
        &[
            "spec: Required value",
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ],
    );
    check(
        &*kind,
        r#""spec":{}"#,
        &["<nil>: Invalid value: failed rule: false"],
    );
}

// The messages are those of a Kubernetes API server for the same CRD and objects.
#[test]
fn errors_quote_strings_as_go_does() {
    let kind = one_kind(
        r#""schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "a": {"type": "string", "enum": ["<x>", "y\u0001"]},
            "b": {"type": "string", "pattern": "^z$"},
            "c": {"type": "string", "x-kubernetes-validations": [{"rule": "self == 'q'", "message": "m"}]},
            "e": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}}}"#,
    );
    check(
        &*kind,
        r#""a":"<v>&\u0001\u2028""#,
        &[
            r#"a: Unsupported value: "<v>&\x01\u2028": supported values: "<x>", "y\x01""#,
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ],
    );
    check(
        &*kind,
        r#""b":"<v>&\u0001\u2028""#,
        &[r#"b: Invalid value: "<v>&\x01\u2028": b in body should match '^z$'"#],
    );
    check(
        &*kind,
        r#""c":"<v>&\u0001\u2028""#,
        &[r#"c: Invalid value: "<v>&\x01\u2028": m"#],
    );
    check(
        &*kind,
        r#""e":["<&>","<&>"]"#,
        &[r#"e[1]: Duplicate value: "<&>""#],
    );
}

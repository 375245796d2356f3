//! Rows: one fact about ownership each.

use serde_json::json;

use super::custom::{kind_shape, tree};
use crate::apply::path_element::order;
use crate::apply::*;
use crate::pack::Pack;
use crate::shape::Shape;
use crate::tree::Tree;
use crate::write::write_tree;

/// An object that several managers write.
struct Object {
    shape: Shape,
    tree: Tree,
    reset: FieldSet,
    time: usize,
}

fn object() -> Object {
    let schema = json!({"properties": {
        "spec": {"type": "object", "properties": {
            "n": {"type": "integer"},
            "s": {"type": "string"},
            "b": {"type": "boolean"},
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "atomic": {"type": "array", "items": {"type": "integer"}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "ports": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object", "properties": {
                    "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "v": {"type": "string"},
                }},
            },
        }},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    }});
    Object {
        shape: kind_shape(&schema),
        tree: Tree::Map(Default::default()),
        reset: FieldSet::default(),
        time: 0,
    }
}

impl Object {
    fn reset(mut self, field: &str) -> Self {
        self.reset = FieldSet::of_fields([[field].as_slice()]);
        self
    }

    fn try_apply(&mut self, name: &str, text: &str, force: Force) -> Result<(), Error> {
        self.write(name, |object, manager| {
            object.tree = apply(&object.tree, &tree(text), &object.shape, manager, force)?;
            Ok(())
        })
    }

    #[track_caller]
    fn apply(mut self, name: &str, text: &str) -> Self {
        self.try_apply(name, text, Force::No).unwrap();
        self
    }

    #[track_caller]
    fn force(mut self, name: &str, text: &str) -> Self {
        self.try_apply(name, text, Force::Yes).unwrap();
        self
    }

    /// Writes the whole object; the first time creates it.
    fn put(mut self, name: &str, text: &str) -> Self {
        let mut new = tree(text);
        self.write(name, |object, manager| {
            update(&object.tree, &mut new, &object.shape, manager);
            Ok(())
        })
        .unwrap();
        new.set(&["metadata", "uid"], "u");
        self.tree = new;
        self
    }

    fn write(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut Self, &FieldManager<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.time += 1;
        let (now, reset) = (format!("t{:02}", self.time), self.reset.clone());
        let manager = FieldManager {
            name,
            api_version: "v1",
            subresource: "",
            now: &now,
            reset: &reset,
            converter: None,
        };
        write(self, &manager)
    }

    #[track_caller]
    fn check(self, spec: &str, owners: &[&str]) -> Self {
        let found = self.tree.get("spec").unwrap_or(&Tree::Null);
        assert!(order(found, &tree(spec)).is_eq(), "{found:?} should be {spec}");
        assert_eq!(described(&self.tree), owners);
        self
    }

    #[track_caller]
    fn rejects(mut self, name: &str, text: &str, why: &str) -> Self {
        let error = self
            .try_apply(name, text, Force::No)
            .expect_err("the write should be rejected");
        assert_eq!(error.to_string(), why);
        self
    }
}

/// The entries as `manager operation time fields`, in their order.
fn described(object: &Tree) -> Vec<String> {
    let entries = object
        .at(&["metadata", "managedFields"])
        .and_then(Tree::as_list)
        .unwrap_or_default();
    let text = |entry: &Tree, key: &str| entry.str_at(&[key]).unwrap_or("-").to_owned();
    let line = |entry: &Tree| {
        let mut fields = Vec::new();
        write_tree(entry.get("fieldsV1").unwrap(), &mut fields);
        let words = ["manager", "operation", "time"]
            .map(|key| text(entry, key))
            .join(" ");
        format!("{words} {}", String::from_utf8(fields).unwrap())
    };
    entries.iter().map(line).collect()
}

// === apply ===

#[test]
fn an_applier_that_changes_nothing_has_no_time_and_keeps_an_older_one() {
    let once = object().apply("m", r#"{"spec":{"n":1}}"#);
    let owners = [r#"m Apply t01 {"f:spec":{"f:n":{}}}"#];
    let again = once
        .check(r#"{"n":1}"#, &owners)
        .apply("m", r#"{"spec":{"n":1}}"#);
    let both = again
        .check(r#"{"n":1}"#, &owners)
        .apply("o", r#"{"spec":{"n":1}}"#);
    both.check(r#"{"n":1}"#, &[r#"o Apply - {"f:spec":{"f:n":{}}}"#, owners[0]]);
}

#[test]
fn an_unapplied_field_without_other_owners_is_removed() {
    let both = object()
        .apply("m", r#"{"spec":{"n":1,"s":"x"}}"#)
        .apply("o", r#"{"spec":{"n":1}}"#);
    let owners = [r#"o Apply - {"f:spec":{"f:n":{}}}"#];
    both.apply("m", "{}")
        .check(r#"{"n":1}"#, &owners)
        .apply("o", "{}")
        .check("null", &[]);
}

#[test]
fn an_item_goes_with_what_the_server_filled_in_there() {
    let mut one = object().apply("m", r#"{"spec":{"ports":[{"port":1},{"port":2}]}}"#);
    for (at, item) in one
        .tree
        .at_mut(&["spec", "ports"])
        .unwrap()
        .as_list_mut()
        .unwrap()
        .iter_mut()
        .enumerate()
    {
        item.set(&["protocol"], "TCP");
        item.set(&["v"], at.to_string());
    }
    let left = one.apply("m", r#"{"spec":{"ports":[{"port":2}]}}"#);
    let owners =
        r#"m Apply t02 {"f:spec":{"f:ports":{"k:{\"port\":2,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}"#;
    left.check(r#"{"ports":[{"port":2,"protocol":"TCP","v":"1"}]}"#, &[owners]);
}

#[test]
fn an_unapplied_struct_is_removed_with_its_unowned_fields() {
    let mut one = object().apply("m", r#"{"spec":{"n":1}}"#);
    one.tree.set(&["spec", "s"], "filled in");
    one.apply("m", "{}").check("null", &[]);
}

#[test]
fn a_default_stays_where_another_owner_keeps_its_parent() {
    let mut one = object()
        .apply("m", r#"{"spec":{"n":1}}"#)
        .apply("o", r#"{"spec":{"b":true}}"#);
    one.tree.set(&["spec", "s"], "filled in");
    let owners = [r#"o Apply t02 {"f:spec":{"f:b":{}}}"#];
    one.apply("m", "{}")
        .check(r#"{"s":"filled in","b":true}"#, &owners);
}

#[test]
fn null_owns_a_field_and_releases_the_fields_below() {
    let one = object()
        .apply("m", r#"{"spec":{"map":{"a":"1"}}}"#)
        .apply("m", r#"{"spec":{"map":null}}"#);
    one.check(r#"{"map":null}"#, &[r#"m Apply t02 {"f:spec":{"f:map":{}}}"#]);
}

#[test]
fn the_type_of_any_json_is_taken_from_its_value() {
    let one = object().apply("m", r#"{"spec":{"free":{"a":{"b":1},"c":[1]}}}"#);
    let owners = r#"m Apply t01 {"f:spec":{"f:free":{"f:a":{".":{},"f:b":{}},"f:c":{}}}}"#;
    let one = one.check(r#"{"free":{"a":{"b":1},"c":[1]}}"#, &[owners]);
    let one = one.rejects(
        "o",
        r#"{"spec":{"free":{"c":[2]}}}"#,
        r#"Apply failed with 1 conflict: conflict with "m": .spec.free.c"#,
    );
    let one = one.rejects(
        "o",
        r#"{"spec":{"free":{"a":1}}}"#,
        r#"Apply failed with 1 conflict: conflict with "m": .spec.free.a"#,
    );
    let forced = one.force("o", r#"{"spec":{"free":{"a":1}}}"#);
    let owners = [
        r#"m Apply t01 {"f:spec":{"f:free":{"f:c":{}}}}"#,
        r#"o Apply t04 {"f:spec":{"f:free":{"f:a":{}}}}"#,
    ];
    forced.check(r#"{"free":{"a":1,"c":[1]}}"#, &owners);
}

#[test]
fn conflicts_are_grouped_by_owner() {
    let both = object()
        .apply("b", r#"{"spec":{"n":1,"s":"x"}}"#)
        .apply("a", r#"{"spec":{"n":1}}"#)
        .put("u", r#"{"spec":{"n":1,"s":"x","b":true}}"#);
    let why = "Apply failed with 4 conflicts: conflicts with \"a\":\n- .spec.n\nconflicts with \"b\":\n- .spec.n\n- .spec.s\nconflicts with \"u\" using v1:\n- .spec.b";
    both.rejects("c", r#"{"spec":{"n":2,"s":"y","b":false}}"#, why);
}

#[test]
fn reset_fields_have_no_owner() {
    let one = object()
        .reset("status")
        .apply("m", r#"{"spec":{"n":1},"status":{"phase":"x"}}"#);
    one.check(r#"{"n":1}"#, &[r#"m Apply t01 {"f:spec":{"f:n":{}}}"#]);
    let one = object()
        .reset("status")
        .put("m", r#"{"spec":{"n":1},"status":{"phase":"x"}}"#);
    one.check(r#"{"n":1}"#, &[r#"m Update t01 {"f:spec":{".":{},"f:n":{}}}"#]);
}

#[test]
fn fields_set_before_the_first_apply_have_an_owner() {
    let mut one = object();
    one.tree = tree(r#"{"metadata":{"name":"x","uid":"u","labels":{"a":"b"}},"spec":{"n":1,"s":"x"}}"#);
    let why = r#"Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .spec.n"#;
    let one = one
        .rejects("m", r#"{"spec":{"n":2}}"#, why)
        .force("m", r#"{"spec":{"n":2}}"#);
    let before = r#"before-first-apply Update t02 {"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{".":{},"f:s":{}}}"#;
    one.check(
        r#"{"n":2,"s":"x"}"#,
        &[r#"m Apply t02 {"f:spec":{"f:n":{}}}"#, before],
    );
}

#[test]
fn an_applied_configuration_must_fit_its_shape() {
    let prefix = "failed to create typed patch object (n/x; apps/v1, Kind=K): ";
    let rows = [
        (r#"{"bogus":1}"#, ".spec.bogus: field not declared in schema"),
        (
            r#"{"n":"x"}"#,
            ".spec.n: expected numeric (int or float), got string",
        ),
        (
            r#"{"s":8080}"#,
            ".spec.s: expected string, got &value.valueUnstructured{Value:8080}",
        ),
        (r#"{"b":"yes"}"#, ".spec.b: expected boolean, got &{yes}"),
        (r#"{"map":[1]}"#, ".spec.map: expected map, got &{[1]}"),
        (r#"{"set":{"a":1}}"#, ".spec.set: expected list, got &{map[a:1]}"),
        (
            r#"{"atomic":[1,"x"]}"#,
            ".spec.atomic[1]: expected numeric (int or float), got string",
        ),
        (
            r#"{"set":["a","b","a"]}"#,
            r#".spec.set: duplicate entries for key [="a"]"#,
        ),
        (
            r#"{"ports":[{"port":1},{"port":1,"protocol":"TCP"}]}"#,
            r#".spec.ports: duplicate entries for key [port=1,protocol="TCP"]"#,
        ),
        (
            r#"{"n":"x","s":1}"#,
            "errors:\n  .spec.n: expected numeric (int or float), got string\n  .spec.s: expected string, got &value.valueUnstructured{Value:1}",
        ),
    ];
    for (spec, why) in rows {
        let text = format!(
            r#"{{"apiVersion":"apps/v1","kind":"K","metadata":{{"namespace":"n","name":"x"}},"spec":{spec}}}"#
        );
        object().rejects("m", &text, &format!("{prefix}{why}"));
    }
    for managers in [
        "[]",
        r#"[{"fieldsV1":["odd"]}]"#,
        r#"[{"time":"2020-01-01T00:00:00Z","odd":1}]"#,
    ] {
        object().rejects(
            "m",
            &format!(r#"{{"metadata":{{"managedFields":{managers}}}}}"#),
            "metadata.managedFields must be nil",
        );
    }
}

#[test]
fn unknown_fields_stay_in_the_object() {
    let mut one = object().apply("m", r#"{"spec":{"n":1}}"#);
    one.tree.set(&["spec", "beyond"], "kept");
    let one = one.apply("m", r#"{"spec":{"n":2}}"#);
    one.check(
        r#"{"n":2,"beyond":"kept"}"#,
        &[r#"m Apply t02 {"f:spec":{"f:n":{}}}"#],
    );
}

#[test]
fn invalid_managed_fields_are_reported() {
    let rows = [
        (
            r#"{"operation":"Patch"}"#,
            "operation must be `Apply` or `Update`",
        ),
        (r#"{"operation":"Apply"}"#, "apiVersion must not be empty"),
        (
            r#"{"operation":"Apply","apiVersion":"v1"}"#,
            "missing fieldsType in managed fields entry 0",
        ),
        (
            r#"{"operation":"Apply","apiVersion":"v1","fieldsType":"V2"}"#,
            "invalid fieldsType \"V2\" in managed fields entry 0",
        ),
        (
            r#"{"operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"x":{}}}"#,
            "\"x\" is not a path element",
        ),
    ];
    for (entry, why) in rows {
        let object = tree(&format!(r#"{{"metadata":{{"managedFields":[{entry}]}}}}"#));
        assert_eq!(ManagedFields::of(&object).unwrap_err().to_string(), why);
    }
}

// === update ===

#[test]
fn an_update_owns_what_it_changes_and_forgets_what_it_removes() {
    let one = object()
        .apply("m", r#"{"spec":{"n":1,"s":"x"}}"#)
        .put("u", r#"{"spec":{"n":2}}"#);
    let one = one.check(r#"{"n":2}"#, &[r#"u Update t02 {"f:spec":{"f:n":{}}}"#]);
    one.put("v", r#"{"spec":{"n":2,"s":"y"}}"#).check(
        r#"{"n":2,"s":"y"}"#,
        &[
            r#"u Update t02 {"f:spec":{"f:n":{}}}"#,
            r#"v Update t03 {"f:spec":{"f:s":{}}}"#,
        ],
    );
}

#[test]
fn the_same_manager_gathers_what_it_updates() {
    let one = object()
        .put("u", r#"{"spec":{"n":1}}"#)
        .put("u", r#"{"spec":{"n":1,"s":"x"}}"#);
    one.check(
        r#"{"n":1,"s":"x"}"#,
        &[r#"u Update t02 {"f:spec":{".":{},"f:n":{},"f:s":{}}}"#],
    );
}

#[test]
fn of_a_duplicate_item_only_the_item_itself_is_owned() {
    let one = object().put("u", r#"{"spec":{"set":["a","a","b"]}}"#);
    let owners = r#"u Update t01 {"f:spec":{".":{},"f:set":{".":{},"v:\"a\"":{},"v:\"b\"":{}}}}"#;
    let one = one.check(r#"{"set":["a","a","b"]}"#, &[owners]);
    one.put("v", r#"{"spec":{"set":["a","b"]}}"#).check(
        r#"{"set":["a","b"]}"#,
        &[
            r#"u Update t01 {"f:spec":{".":{},"f:set":{".":{},"v:\"b\"":{}}}}"#,
            r#"v Update t02 {"f:spec":{"f:set":{"v:\"a\"":{}}}}"#,
        ],
    );
}

#[test]
fn a_request_may_replace_or_clear_the_managers() {
    let mine = r#"[{"manager":"x","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:n":{}}}}]"#;
    let with = |managers: &str| format!(r#"{{"metadata":{{"managedFields":{managers}}},"spec":{{"n":1}}}}"#);
    let one = || object().put("u", r#"{"spec":{"n":1}}"#);
    let kept = [r#"u Update t01 {"f:spec":{".":{},"f:n":{}}}"#];
    one()
        .put("v", &with(mine))
        .check(r#"{"n":1}"#, &[r#"x Apply - {"f:spec":{"f:n":{}}}"#]);
    one().put("v", &with("[]")).check(r#"{"n":1}"#, &[]);
    one().put("v", &with("[{}]")).check(r#"{"n":1}"#, &[]);
    one()
        .put("v", &with(r#"[{"manager":"x"},{"manager":"y"}]"#))
        .check(r#"{"n":1}"#, &kept);
    one().put("v", &with("null")).check(r#"{"n":1}"#, &kept);
    // An object without managers stays without them until the first apply.
    one()
        .put("v", &with("[]"))
        .put("w", r#"{"spec":{"n":2}}"#)
        .check(r#"{"n":2}"#, &[]);
}

#[test]
fn a_manager_without_a_name_is_unknown() {
    object().put("", r#"{"spec":{"n":1}}"#).check(
        r#"{"n":1}"#,
        &[r#"unknown Update t01 {"f:spec":{".":{},"f:n":{}}}"#],
    );
}

#[test]
fn the_oldest_of_more_than_ten_updaters_become_one() {
    let mut one = object().apply("m", r#"{"spec":{"s":"x"}}"#);
    let mut map = serde_json::Map::new();
    for at in 0..12 {
        map.insert(format!("k{at:02}"), "v".into());
        let text = json!({"spec": {"s": "x", "map": map}}).to_string();
        one = one.put(&format!("u{at:02}"), &text);
    }
    let owners = described(&one.tree);
    assert_eq!(owners.len(), 11);
    assert_eq!(owners[0], r#"m Apply t01 {"f:spec":{"f:s":{}}}"#);
    let ancient =
        r#"ancient-changes Update t04 {"f:spec":{"f:map":{".":{},"f:k00":{},"f:k01":{},"f:k02":{}}}}"#;
    assert_eq!(owners[1], ancient);
    assert_eq!(owners[10], r#"u11 Update t13 {"f:spec":{"f:map":{"f:k11":{}}}}"#);
}

#[test]
fn zero_values_that_are_not_written_are_not_owned() {
    let shape = Pack::builtin().shape_of("apps", "v1", "Deployment").unwrap();
    let reset = FieldSet::of_fields([["status"].as_slice()]);
    let manager = FieldManager {
        name: "u",
        api_version: "apps/v1",
        subresource: "",
        now: "t",
        reset: &reset,
        converter: None,
    };
    let spec = r#"{"selector":{},"minReadySeconds":0,"paused":false,"template":{"spec":{"containers":[{"name":"c","image":""}]}}}"#;
    let mut new = tree(&format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"x"}},"spec":{spec}}}"#
    ));
    update(&Tree::Map(Default::default()), &mut new, shape, &manager);
    let container = r#"{"k:{\"name\":\"c\"}":{".":{},"f:name":{},"f:resources":{}}}"#;
    let expected = format!(
        r#"u Update t {{"f:spec":{{"f:selector":{{}},"f:template":{{"f:spec":{{"f:containers":{container}}}}}}}}}"#
    );
    assert_eq!(described(&new), [expected]);
}

#[test]
fn a_scale_is_an_update_through_its_subresource() {
    let shape = Pack::builtin().shape_of("apps", "v1", "Deployment").unwrap();
    let reset = FieldSet::default();
    let by = |name: &'static str, subresource: &'static str| FieldManager {
        name,
        api_version: "apps/v1",
        subresource,
        now: "t",
        reset: &reset,
        converter: None,
    };
    let applied = tree(r#"{"spec":{"replicas":2}}"#);
    let live = apply(
        &Tree::Map(Default::default()),
        &applied,
        shape,
        &by("m", ""),
        Force::No,
    )
    .unwrap();
    let mut scaled = live.clone();
    scaled.set(&["spec", "replicas"], 7);
    update(&live, &mut scaled, shape, &by("scaler", "scale"));
    let error = apply(&scaled, &applied, shape, &by("m", ""), Force::No).unwrap_err();
    let why = r#"conflict with "scaler" with subresource "scale" using apps/v1: .spec.replicas"#;
    assert_eq!(error.to_string(), format!("Apply failed with 1 conflict: {why}"));
}

#[test]
fn a_field_that_became_atomic_is_owned_as_a_whole() {
    let mut one = object();
    let managers = r#"[{"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:atomic":{"i:0":{}},"f:n":{}}}}]"#;
    one.tree = tree(&format!(
        r#"{{"metadata":{{"managedFields":{managers}}},"spec":{{"atomic":[1],"n":1}}}}"#
    ));
    let why = r#"Apply failed with 1 conflict: conflict with "m": .spec.atomic"#;
    one.rejects("o", r#"{"spec":{"atomic":[2]}}"#, why);
}

// === times ===

#[test]
fn a_change_of_timestamps_only_is_no_change() {
    let old = object().put("u", r#"{"spec":{"n":1}}"#).tree;
    let mut new = old.clone();
    new.at_mut(&["metadata", "managedFields"])
        .unwrap()
        .as_list_mut()
        .unwrap()[0]
        .set(&["time"], "t99");
    let mut changed = new.clone();
    keep_timestamps_if_unchanged(&old, &mut new);
    assert_eq!(described(&new), described(&old));
    changed.set(&["spec", "n"], 2);
    keep_timestamps_if_unchanged(&old, &mut changed);
    assert_eq!(
        described(&changed),
        [r#"u Update t99 {"f:spec":{".":{},"f:n":{}}}"#]
    );
}

// === migration from client-side apply ===

const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn applied_by_the_client() -> Object {
    let last = json!({"spec": {"n": 1, "s": "x"}}).to_string();
    let object_text =
        json!({"metadata": {"annotations": {LAST: last}}, "spec": {"n": 1, "s": "y"}}).to_string();
    object().put("kubectl-client-side-apply", &object_text)
}

#[test]
fn fields_last_applied_client_side_are_no_conflict_for_kubectl() {
    let one = applied_by_the_client().apply("kubectl", r#"{"spec":{"n":2}}"#);
    assert_eq!(
        one.tree.str_at(&["metadata", "annotations", LAST]),
        Some("{\"spec\":{\"n\":2}}\n")
    );
    let why = r#"Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .spec.n"#;
    applied_by_the_client().rejects("other", r#"{"spec":{"n":2}}"#, why);
}

#[test]
fn a_field_changed_since_the_client_side_apply_is_a_conflict() {
    let why = r#"Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .spec.s"#;
    applied_by_the_client().rejects("kubectl", r#"{"spec":{"n":2,"s":"z"}}"#, why);
}

#[test]
fn long_lists_are_merged_in_linear_time() {
    let ports = |numbers: &mut dyn Iterator<Item = usize>| {
        let ports: Vec<_> = numbers.map(|port| json!({"port": port})).collect();
        json!({"spec": {"ports": ports}}).to_string()
    };
    const MANY: usize = 30_000;
    let mut object = object();
    object.try_apply("a", &ports(&mut (0..MANY)), Force::No).unwrap();
    object
        .try_apply("b", &ports(&mut (0..MANY).rev()), Force::No)
        .unwrap();
    object.try_apply("a", &ports(&mut (0..1)), Force::No).unwrap();
    let left = object.tree.at(&["spec", "ports"]).and_then(Tree::as_list);
    assert_eq!(left.map(<[Tree]>::len), Some(MANY));
}

#[test]
fn many_managers_are_read_and_merged_in_linear_time() {
    const MANY: usize = 5_000;
    let entry = |at: usize| {
        json!({
            "manager": format!("m{at}"), "operation": if at.is_multiple_of(2) { "Apply" } else { "Update" },
            "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:map": {format!("f:k{at}"): {}}}},
        })
    };
    let keys: serde_json::Map<_, _> = (0..MANY).map(|at| (format!("k{at}"), "v".into())).collect();
    let entries: Vec<_> = (0..MANY).chain(0..1).map(entry).collect();
    let mut object = object();
    let whole = json!({"metadata": {"uid": "u", "managedFields": entries}, "spec": {"map": keys}});
    object.tree = tree(&whole.to_string());
    object
        .try_apply("a", r#"{"spec":{"map":{"new":"v"}}}"#, Force::No)
        .unwrap();
    let managers = ManagedFields::of(&object.tree).unwrap();
    assert_eq!(managers.entries().len(), MANY + 1);
}

//! Strategic merge patch: rows.

mod diff;
mod model;

use serde_json::{Value, json};

use super::super::{Error, apply_strategic};
use crate::pack::Pack;
use crate::shape::Shape;
use crate::tree::{Tree, to_tree};

fn tree(value: &Value) -> Tree {
    to_tree(value).unwrap()
}

fn pod() -> &'static Shape {
    Pack::builtin().shape_of("", "v1", "Pod").unwrap()
}

fn patched(object: &Value, patch: &Value) -> Result<Tree, Error> {
    let mut object = tree(object);
    apply_strategic(&mut object, &tree(patch), pod()).map(|()| object)
}

#[track_caller]
fn check(object: Value, patch: Value, expected: Value) {
    let object = patched(&object, &patch).unwrap();
    assert!(
        object.semantic_eq(&tree(&expected)),
        "{object:?}\nis not {expected}"
    );
}

#[track_caller]
fn check_fails(object: Value, patch: Value, expected: Error) {
    assert_eq!(patched(&object, &patch).unwrap_err(), expected);
}

/// A pod spec with containers of these names, each with an image of the same name.
fn containers(names: &str) -> Value {
    let list: Vec<Value> = names
        .split_whitespace()
        .map(|name| json!({"name": name, "image": name}))
        .collect();
    json!({"spec": {"containers": list}})
}

/// Checks the names of the containers after a patch whose elements are names, `-name` for a deletion and `=` for a
/// replacement, with the order as names, if any.
#[track_caller]
fn check_order(live: &str, patch: &str, order: Option<&str>, expected: &str) {
    let element = |word: &str| match word.strip_prefix('-') {
        Some(name) => json!({"name": name, "$patch": "delete"}),
        None if word == "=" => json!({"$patch": "replace"}),
        None => json!({"name": word, "image": word}),
    };
    let mut spec = json!({"containers": patch.split_whitespace().map(element).collect::<Value>()});
    if let Some(order) = order {
        spec["$setElementOrder/containers"] = order
            .split_whitespace()
            .map(|name| json!({"name": name}))
            .collect();
    }
    let object = patched(&containers(live), &json!({"spec": spec})).unwrap();
    let list = object
        .at(&["spec", "containers"])
        .and_then(Tree::as_list)
        .unwrap();
    let names: Vec<&str> = list
        .iter()
        .map(|element| element.str_at(&["name"]).unwrap())
        .collect();
    assert_eq!(names.join(" "), expected);
}

#[test]
fn elements_with_the_same_key_are_merged() {
    check(
        containers("a b"),
        json!({"spec": {"containers": [{"name": "b", "image": "new", "tty": true}]}}),
        json!({"spec": {"containers": [{"name": "a", "image": "a"}, {"name": "b", "image": "new", "tty": true}]}}),
    );
}

#[test]
fn an_absent_list_is_added_without_directives_and_nulls() {
    check(
        json!({}),
        json!({"spec": {"containers": [{"name": "a", "image": null}, {"name": "b", "$patch": "delete"}]}}),
        json!({"spec": {"containers": [{"name": "a"}]}}),
    );
}

#[test]
fn the_elements_of_the_patch_are_in_its_order() {
    check_order("a b c", "c a", None, "b c a");
    check_order("a b c", "n b", None, "n a b c");
    check_order("a b c", "n", None, "n a b c");
    check_order("a b c", "d -a b", None, "d b c");
    check_order("a b c", "-a -b -c", None, "");
    check_order("a b c", "-x", None, "a b c");
    check_order("a b c", "= x y", None, "x y");
    check_order("a b c", "x = -y z", None, "x z");
}

#[test]
fn set_element_order_is_kept_and_server_only_elements_keep_theirs() {
    check_order("a b", "a", Some("b a"), "b a");
    check_order("s1 a s2 b", "", Some("b a"), "s1 s2 b a");
    check_order("a b", "n", Some("n a b"), "n a b");
    check_order("a s b", "n", Some("a n b"), "a n s b");
    check_order("a b c", "-a c", Some("c b"), "c b");
    check_order("a s1 s2", "b", Some("b a"), "b a s1 s2");
    check_order("a b", "= c b", Some("c b"), "c b");
}

#[test]
fn an_order_alone_adds_nothing() {
    check(
        json!({"spec": {}}),
        json!({"spec": {"$setElementOrder/containers": [{"name": "a"}]}}),
        json!({"spec": {}}),
    );
}

#[test]
fn an_order_must_name_what_the_patch_sets() {
    check_fails(
        containers("a"),
        json!({"spec": {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}}),
        Error::Unmergeable(
            "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n"
                .to_owned(),
        ),
    );
    check_fails(
        containers("a"),
        json!({"spec": {"$setElementOrder": []}}),
        Error::Malformed("invalid patch format of setElementOrder list".to_owned()),
    );
    check_fails(
        containers("a"),
        json!({"spec": {"$setElementOrder/containers": 5}}),
        Error::Unmergeable("expected a []interface {}, but received a int64".to_owned()),
    );
    check_fails(
        containers("a"),
        json!({"spec": {"$setElementOrder/nope": []}}),
        Error::Unmergeable(
            "unable to find api field in struct PodSpec for the json field \"nope\"".to_owned(),
        ),
    );
}

#[test]
fn scalars_are_united_and_deleted_by_value() {
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    check(
        finalizers(json!(["a", "b"])),
        finalizers(json!(["c", "b"])),
        finalizers(json!(["c", "a", "b"])),
    );
    check(
        finalizers(json!(["a", "b"])),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "z"]}}),
        finalizers(json!(["b"])),
    );
    check(
        finalizers(json!(["a", "b"])),
        json!({"metadata": {"$setElementOrder/finalizers": ["c", "b", "a"], "finalizers": ["c"]}}),
        finalizers(json!(["c", "b", "a"])),
    );
    check(
        json!({"metadata": {}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
        json!({"metadata": {}}),
    );
    check_fails(
        json!({}),
        json!({"$deleteFromPrimitiveList": []}),
        Error::Malformed("invalid patch format of primitive list".to_owned()),
    );
}

#[test]
fn a_list_without_a_strategy_is_replaced() {
    let args = |list: Value| json!({"spec": {"containers": [{"name": "a", "args": list}]}});
    check(args(json!(["x", "y"])), args(json!(["z"])), args(json!(["z"])));
    let tolerations = |key: &str| json!({"spec": {"tolerations": [{"key": key}]}});
    check(tolerations("a"), tolerations("b"), tolerations("b"));
}

#[test]
fn a_map_is_merged_replaced_or_emptied() {
    let labels = |map: Value| json!({"metadata": {"labels": map}});
    check(
        labels(json!({"a": "1", "b": "2"})),
        labels(json!({"a": null, "c": "3"})),
        labels(json!({"b": "2", "c": "3"})),
    );
    check(
        labels(json!({"a": "1"})),
        labels(json!({"$patch": "replace", "c": "3"})),
        labels(json!({"c": "3"})),
    );
    check(
        labels(json!({"a": "1"})),
        labels(json!({"$patch": "delete", "c": "3"})),
        labels(json!({})),
    );
    check(
        labels(json!({"a": "1"})),
        labels(json!(null)),
        json!({"metadata": {}}),
    );
    check(
        json!({"spec": {}}),
        json!({"spec": {"nodeSelector": {"$patch": "delete"}}}),
        json!({"spec": {}}),
    );
}

#[test]
fn only_retained_keys_stay() {
    let volumes = |volume: Value| json!({"spec": {"volumes": [volume]}});
    check(
        volumes(json!({"name": "v", "emptyDir": {}})),
        volumes(json!({"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}})),
        volumes(json!({"name": "v", "hostPath": {"path": "/x"}})),
    );
    let invalid = || Error::Malformed("invalid patch format of retainKeys".to_owned());
    check_fails(json!({}), json!({"$retainKeys": "spec"}), invalid());
    check_fails(
        json!({}),
        json!({"$retainKeys": ["spec"], "metadata": {}}),
        invalid(),
    );
    check(
        json!({"spec": {}, "status": {}}),
        json!({"$retainKeys": ["spec"], "metadata": null}),
        json!({"spec": {}}),
    );
}

#[test]
fn an_unknown_or_misplaced_directive_is_an_error() {
    let element = |map: Value| json!({"spec": {"containers": [map]}});
    let fails =
        |patch: Value, text: &str| check_fails(containers("a"), patch, Error::Unmergeable(text.to_owned()));
    fails(
        element(json!({"name": "a", "$patch": "explode"})),
        "unknown patch type: explode in map: map[$patch:explode name:a]",
    );
    fails(
        element(json!({"$patch": "delete"})),
        "map: map[$patch:delete] does not contain declared merge key: name",
    );
    fails(
        element(json!({"$patch": "merge"})),
        "merging lists cannot yet be specified in the patch",
    );
    fails(
        element(json!({"image": "x"})),
        "map: map[image:x] does not contain declared merge key: name",
    );
    fails(
        json!({"spec": {"$patch": "merge"}}),
        "unknown patch type: merge in map: map[$patch:merge]",
    );
}

#[test]
fn elements_of_two_types_are_not_merged() {
    check_fails(
        containers("a"),
        json!({"spec": {"containers": [null, "x"]}}),
        Error::Unmergeable(
            "list element types are not identical: [[map[image:a name:a]] [<nil> x]]".to_owned(),
        ),
    );
}

#[track_caller]
fn check_quoted(patch: Value, expected: &str) {
    let object = json!({"metadata": {"labels": {"a": "b"}}, "spec": containers("a")["spec"]});
    let quoted = crate::patch::quoted_strategic(&tree(&object), &tree(&patch), pod());
    assert_eq!(quoted, expected);
}

#[test]
fn an_error_quotes_the_patch_as_merging_left_it() {
    check_quoted(
        json!({"spec": {"$patch": "replace", "x": 1}}),
        "map[spec:map[x:1]]",
    );
    check_quoted(
        json!({"spec": {"$patch": "delete", "x": 1}}),
        "map[spec:map[$patch:delete x:1]]",
    );
    check_quoted(
        json!({"metadata": {"labels": {"a": null}, "annotations": {"a": null, "b": {"$patch": "delete"}}}}),
        "map[metadata:map[annotations:map[] labels:map[a:<nil>]]]",
    );
    check_quoted(
        json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "a"}], "x": 1}}),
        "map[spec:map[x:1]]",
    );
    check_quoted(
        json!({"spec": {"containers": [{"name": "a", "env": [{"name": "x", "value": null}]},
            {"name": "b", "image": null}]}}),
        "map[spec:map[containers:[map[env:[map[name:x]] name:a] map[image:<nil> name:b]]]]",
    );
    check_quoted(
        json!({"metadata": {"$retainKeys": ["name"], "labels": {"b": null}}}),
        "map[metadata:map[labels:map[]]]",
    );
}

#[test]
fn a_number_beyond_its_type_is_truncated() {
    check(
        json!({"spec": {}}),
        json!({"spec": {"priority": 9_223_372_036_854_775_807_i64, "terminationGracePeriodSeconds": 4_294_967_297_i64}}),
        json!({"spec": {"priority": -1, "terminationGracePeriodSeconds": 4_294_967_297_i64}}),
    );
}

#[test]
fn a_number_in_a_text_is_rejected_with_the_type_of_the_field() {
    let secret = Pack::builtin().shape_of("", "v1", "Secret").unwrap();
    let mut object = tree(&json!({}));
    let failed = apply_strategic(&mut object, &tree(&json!({"type": 1})), secret);
    let why = "cannot convert int64 to v1.SecretType";
    assert_eq!(failed, Err(Error::TypeMismatch(why.to_owned())));
}

#[test]
fn bytes_that_are_no_base64_are_rejected_in_the_words_of_the_converter() {
    let secret = Pack::builtin().shape_of("", "v1", "Secret").unwrap();
    let fails = |data: Value, why: &str| {
        let failed = apply_strategic(
            &mut tree(&json!({})),
            &tree(&json!({"data": {"a": data}})),
            secret,
        );
        assert_eq!(failed, Err(Error::TypeMismatch(why.to_owned())));
    };
    fails(
        json!("a.b"),
        "error decoding from json: illegal base64 data at input byte 1",
    );
    fails(json!(["a"]), "unrecognized type: uint8");
}

#[test]
fn the_first_invalid_field_is_reported_also_if_it_is_a_quantity() {
    let range = Pack::builtin().shape_of("", "v1", "LimitRange").unwrap();
    let patch = json!({"spec": {"limits": [{"max": {"storage": "x"}, "min": 5}]}});
    let failed = apply_strategic(&mut tree(&json!({})), &tree(&patch), range).unwrap_err();
    assert!(
        failed.to_string().starts_with("quantities must match"),
        "{failed}"
    );
}

#[test]
fn a_port_of_a_wrong_type_is_rejected_without_its_path() {
    let service = Pack::builtin().shape_of("", "v1", "Service").unwrap();
    let fails = |port: Value, found: &str| {
        let patch = json!({"spec": {"ports": [{"port": 80, "targetPort": port}]}});
        let failed = apply_strategic(&mut tree(&json!({})), &tree(&patch), service);
        let why = format!("json: cannot unmarshal {found} into Go value of type int32");
        assert_eq!(failed, Err(Error::TypeMismatch(why)));
    };
    fails(json!(2_147_483_648_i64), "number 2147483648");
    fails(json!(1.5), "number 1.5");
    fails(json!({}), "object");
}

#[test]
fn a_time_that_is_no_text_is_rejected_without_its_path() {
    check_fails(
        json!({}),
        json!({"metadata": {"creationTimestamp": ["odd"]}}),
        Error::TypeMismatch("json: cannot unmarshal array into Go value of type string".to_owned()),
    );
}

#[test]
fn a_merged_object_of_wrong_types_is_rejected_with_the_conversion_error() {
    let mistyped = |patch: Value, shown: &str, why: &str| {
        let quoted = crate::patch::quoted_strategic(&tree(&containers("a")), &tree(&patch), pod());
        assert_eq!(quoted, shown);
        check_fails(containers("a"), patch, Error::TypeMismatch(why.to_owned()));
    };
    mistyped(
        json!({"spec": []}),
        "map[spec:[]]",
        "cannot restore struct from: slice",
    );
    mistyped(
        json!({"spec": {"containers": {"a": 1}}}),
        "map[spec:map[containers:map[a:1]]]",
        "cannot restore slice from map",
    );
    mistyped(
        json!({"metadata": {"labels": 5}}),
        "map[metadata:map[labels:5]]",
        "cannot restore map from int64",
    );
    mistyped(
        json!({"metadata": {"labels": {"a": 5}}}),
        "map[metadata:map[labels:map[a:5]]]",
        "cannot convert int64 to string",
    );
    mistyped(
        json!({"metadata": {"name": true}}),
        "map[metadata:map[name:true]]",
        "unrecognized type: string",
    );
    mistyped(
        json!({"spec": {"priority": "x"}}),
        "map[spec:map[priority:x]]",
        "unrecognized type: int32",
    );
    mistyped(
        json!({"spec": {"priority": 1.5}}),
        "map[spec:map[priority:1.5]]",
        "cannot convert float64 to int32",
    );
    mistyped(
        json!({"spec": {"hostPID": 1}}),
        "map[spec:map[hostPID:1]]",
        "unrecognized type: bool",
    );
}

#[test]
fn a_whole_number_written_as_a_fraction_is_whole() {
    let object = patched(&json!({}), &json!({"spec": {"priority": 3.0}})).unwrap();
    assert_eq!(object.at(&["spec", "priority"]), Some(&Tree::Int(3)));
}

#[test]
fn unknown_fields_are_left_to_pruning() {
    check(
        json!({"spec": {}}),
        json!({"spec": {"foo": [{"a": 1}]}}),
        json!({"spec": {"foo": [{"a": 1}]}}),
    );
}

#[test]
fn the_patch_is_an_object_or_null() {
    check(json!({"spec": {}}), json!(null), json!({"spec": {}}));
    check_fails(
        json!({}),
        json!([]),
        Error::Malformed(
            "json: cannot unmarshal array into Go value of type map[string]interface {}".to_owned(),
        ),
    );
}

/// A list of this many elements is matched by key; comparing each with each would take hours.
const MANY: usize = 30_000;

fn secrets(numbers: impl Iterator<Item = usize>) -> Value {
    let list: Vec<Value> = numbers.map(|at| json!({"name": format!("s{at}")})).collect();
    json!({"imagePullSecrets": list})
}

#[test]
fn long_lists_are_merged_in_linear_time() {
    let live = json!({"spec": secrets(0..MANY)});
    let reversed = json!({"spec": secrets((0..MANY).rev())});
    check(live.clone(), reversed.clone(), reversed.clone());
    let mut ordered = reversed.clone();
    ordered["spec"]["$setElementOrder/imagePullSecrets"] = reversed["spec"]["imagePullSecrets"].clone();
    check(live, ordered, reversed);
}

#[test]
fn many_elements_are_deleted_in_linear_time() {
    let mut patch = secrets(1..MANY);
    let elements = patch["imagePullSecrets"].as_array_mut().unwrap();
    for element in elements {
        element["$patch"] = json!("delete");
    }
    check(
        json!({"spec": secrets(0..MANY)}),
        json!({"spec": patch}),
        json!({"spec": secrets(0..1)}),
    );
}

#[test]
fn long_lists_of_strings_are_merged_and_deleted_from_in_linear_time() {
    let names = |numbers: &mut dyn Iterator<Item = usize>| -> Value {
        numbers.map(|at| json!(format!("f{at}"))).collect()
    };
    let live = json!({"metadata": {"finalizers": names(&mut (0..MANY))}});
    check(
        live.clone(),
        json!({"metadata": {"finalizers": names(&mut (MANY..2 * MANY))}}),
        json!({"metadata": {"finalizers": names(&mut (MANY..2 * MANY).chain(0..MANY))}}),
    );
    check(
        live,
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": names(&mut (1..MANY))}}),
        json!({"metadata": {"finalizers": ["f0"]}}),
    );
}

//! Pruning, row by row: object in, object and errors out.

use proptest::prelude::*;

use super::*;
use crate::pack::Pack;
use crate::tree::tests::any_tree;

fn shape(kind: &str) -> &'static Shape {
    let pack = Pack::builtin();
    pack.shape_of("", "v1", kind)
        .or_else(|| pack.shape_of("apps", "v1", kind))
        .or_else(|| pack.shape_of("apiextensions.k8s.io", "v1", kind))
        .unwrap()
}

fn run(kind: &str, object: &str) -> (Tree, PruneErrors) {
    let mut tree: Tree = serde_json::from_str(object).unwrap();
    let problems = prune(shape(kind), &mut tree);
    (tree, problems)
}

/// Prunes an object and compares the result, and the errors joined by commas.
#[track_caller]
fn check(kind: &str, object: &str, left: &str, problems: &str) {
    let (tree, found) = run(kind, object);
    assert_eq!(serde_json::to_string(&tree).unwrap(), left);
    let texts: Vec<String> = found.strict.iter().map(StrictError::to_string).collect();
    assert_eq!(texts.join(", "), problems);
    assert_eq!(found.type_error, None);
}

#[track_caller]
fn check_mismatch(kind: &str, object: &str, expected: &str) {
    let text = run(kind, object)
        .1
        .type_error
        .expect("the object has a value of a wrong type");
    assert_eq!(text, expected);
}

#[test]
fn an_unknown_field_is_dropped_and_reported_with_its_path() {
    check(
        "ConfigMap",
        r#"{"foo":1,"data":{"a":"b"}}"#,
        r#"{"data":{"a":"b"}}"#,
        r#"unknown field "foo""#,
    );
    check(
        "Pod",
        r#"{"spec":{"containers":[{"name":"a"},{"name":"b","x":{"y":1},"ports":[{"z":1}]}]}}"#,
        r#"{"spec":{"containers":[{"name":"a"},{"name":"b","ports":[{}]}]}}"#,
        r#"unknown field "spec.containers[1].x", unknown field "spec.containers[1].ports[0].z""#,
    );
}

/// A CRD with this schema.
fn crd(schema: &str) -> String {
    format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#)
}

#[test]
fn an_error_inside_items_counts_before_earlier_ones() {
    let path = "Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema";
    for (schema, expected) in [
        (
            r#"{"maximum":"x","items":{"type":1}}"#,
            format!("json: cannot unmarshal number into {path}.items.type of type string"),
        ),
        (
            r#"{"maximum":"x","items":{"type":"string"}}"#,
            format!("json: cannot unmarshal string into {path}.maximum of type float64"),
        ),
        (
            r#"{"maximum":"x","additionalProperties":1.5}"#,
            "boolean or JSON schema expected".to_owned(),
        ),
        (
            r#"{"enum":"x"}"#,
            format!("json: cannot unmarshal string into {path}.enum of type []v1.JSON"),
        ),
        (
            r#"{"dependencies":true}"#,
            format!("json: cannot unmarshal bool into {path}.dependencies of type v1.JSONSchemaDependencies"),
        ),
    ] {
        check_mismatch("CustomResourceDefinition", &crd(schema), &expected);
    }
}

#[test]
fn items_that_are_no_schema_are_absent() {
    for items in ["true", "[]", "1", "\"x\""] {
        let object = crd(&format!(r#"{{"type":"array","items":{items}}}"#));
        check(
            "CustomResourceDefinition",
            &object,
            &crd(r#"{"type":"array"}"#),
            "",
        );
    }
}

#[test]
fn names_are_case_sensitive() {
    check("ConfigMap", r#"{"Data":{}}"#, "{}", r#"unknown field "Data""#);
}

#[test]
fn the_later_of_two_values_counts_and_the_field_is_named_once() {
    check(
        "Deployment",
        r#"{"spec":{"replicas":1,"paused":true,"replicas":2,"replicas":3}}"#,
        r#"{"spec":{"replicas":3,"paused":true}}"#,
        r#"duplicate field "spec.replicas""#,
    );
    check(
        "ConfigMap",
        r#"{"data":{"a":"1","a":"2"}}"#,
        r#"{"data":{"a":"2"}}"#,
        r#"duplicate field "data.a""#,
    );
    check(
        "ConfigMap",
        r#"{"metadata":{"name":"a"},"metadata":{"namespace":"b"}}"#,
        r#"{"metadata":{"name":"a","namespace":"b"}}"#,
        r#"duplicate field "metadata""#,
    );
}

#[test]
fn a_duplicate_in_a_large_map_is_found() {
    let pairs: Vec<String> = (0..40).map(|at| format!("\"k{at}\":\"v\"")).collect();
    let object = format!("{{\"data\":{{{},\"k7\":\"w\"}}}}", pairs.join(","));
    let (tree, problems) = run("ConfigMap", &object);
    assert_eq!(problems.strict, [StrictError::Duplicate("data.k7".into())]);
    assert_eq!(tree.str_at(&["data", "k7"]), Some("w"));
}

#[test]
fn null_is_unset_and_a_null_element_has_its_zero_value() {
    check(
        "Pod",
        r#"{"spec":null,"metadata":{"labels":null}}"#,
        r#"{"metadata":{}}"#,
        "",
    );
    check("ConfigMap", r#"{"data":{"a":null}}"#, r#"{"data":{"a":""}}"#, "");
    check(
        "Pod",
        r#"{"spec":{"containers":[null]}}"#,
        r#"{"spec":{"containers":[{}]}}"#,
        "",
    );
}

#[test]
fn raw_json_is_not_inspected() {
    let object = r#"{"data":{"any":{"thing":[1,1]}},"revision":1}"#;
    check("ControllerRevision", object, object, "");
}

#[test]
fn inlined_fields_belong_to_their_holder() {
    let object = r#"{"spec":{"volumes":[{"name":"a","emptyDir":{}}]}}"#;
    check("Pod", object, object, "");
    check(
        "Pod",
        r#"{"spec":{"volumes":[{"volumeSource":{}}]}}"#,
        r#"{"spec":{"volumes":[{}]}}"#,
        r#"unknown field "spec.volumes[0].volumeSource""#,
    );
}

#[test]
fn times_get_their_canonical_form_and_quantities_become_strings() {
    check(
        "Pod",
        r#"{"metadata":{"creationTimestamp":"2026-01-01T01:00:00.5+01:00"}}"#,
        r#"{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z"}}"#,
        "",
    );
    check(
        "Pod",
        r#"{"spec":{"overhead":{"cpu":1,"memory":"1Gi","x":0.5}}}"#,
        r#"{"spec":{"overhead":{"cpu":"1","memory":"1Gi","x":"0.5"}}}"#,
        "",
    );
}

#[test]
fn a_wrong_type_is_named_with_its_struct_and_field() {
    check_mismatch(
        "Pod",
        r#"{"spec":"x"}"#,
        "json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec",
    );
    check_mismatch(
        "Pod",
        r#"{"spec":{"containers":[{"ports":[{"containerPort":"80"}]}]}}"#,
        "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
    );
    check_mismatch(
        "Pod",
        r#"{"metadata":{"labels":{"a":1}}}"#,
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
    );
    check_mismatch(
        "Pod",
        r#"{"spec":{"containers":{}}}"#,
        "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
    );
    check_mismatch(
        "Pod",
        r#"{"spec":{"restartPolicy":1}}"#,
        "json: cannot unmarshal number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
    );
    check_mismatch(
        "Pod",
        r#"{"metadata":{"creationTimestamp":5}}"#,
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
    );
    check_mismatch(
        "Pod",
        "[]",
        "json: cannot unmarshal array into Go value of type v1.Pod",
    );
}

#[test]
fn named_and_inlined_types_are_called_by_their_names() {
    for (kind, object, expected) in [
        (
            "Secret",
            r#"{"type":1}"#,
            "json: cannot unmarshal number into Go struct field Secret.type of type v1.SecretType",
        ),
        (
            "Pod",
            r#"{"spec":{"overhead":1}}"#,
            "json: cannot unmarshal number into Go struct field PodSpec.spec.overhead of type v1.ResourceList",
        ),
        (
            "Namespace",
            r#"{"spec":{"finalizers":{}}}"#,
            "json: cannot unmarshal object into Go struct field NamespaceSpec.spec.finalizers of type []v1.FinalizerName",
        ),
        (
            "Namespace",
            r#"{"spec":{"finalizers":[1]}}"#,
            "json: cannot unmarshal number into Go struct field NamespaceSpec.spec.finalizers of type v1.FinalizerName",
        ),
        (
            "Pod",
            r#"{"spec":{"volumes":[{"hostPath":[]}]}}"#,
            "json: cannot unmarshal array into Go struct field Volume.spec.volumes.VolumeSource.hostPath of type v1.HostPathVolumeSource",
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":[]}}}]}}"#,
            "json: cannot unmarshal array into Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
        ),
    ] {
        check_mismatch(kind, object, expected);
    }
}

#[test]
fn a_type_with_its_own_unmarshal_json_has_the_last_error() {
    check_mismatch(
        "Pod",
        r#"{"metadata":{"name":1},"spec":{"overhead":{"cpu":"x"},"nodeName":2}}"#,
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    );
}

#[test]
fn bytes_may_come_as_a_list_of_numbers() {
    let (tree, problems) = run("ConfigMap", r#"{"binaryData":{"a":[65,66],"b":[]}}"#);
    assert_eq!(problems.type_error, None);
    assert_eq!(
        serde_json::to_string(&tree).unwrap(),
        r#"{"binaryData":{"a":"QUI=","b":""}}"#
    );
    check_mismatch(
        "ConfigMap",
        r#"{"binaryData":{"a":[256]}}"#,
        "json: cannot unmarshal number 256 into Go struct field ConfigMap.binaryData of type uint8",
    );
}

#[test]
fn a_number_that_does_not_fit_is_shown() {
    check_mismatch(
        "Deployment",
        r#"{"spec":{"replicas":3000000000}}"#,
        "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    check_mismatch(
        "Deployment",
        r#"{"spec":{"replicas":9223372036854775808}}"#,
        "json: cannot unmarshal number 9223372036854775808 into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    check_mismatch(
        "Deployment",
        r#"{"spec":{"replicas":1.5}}"#,
        "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
}

#[test]
fn only_the_first_wrong_value_is_named() {
    check_mismatch(
        "Pod",
        r#"{"metadata":{"name":1},"spec":"x"}"#,
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
    );
}

#[test]
fn strings_that_do_not_parse_are_rejected() {
    let form = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    for quantity in [r#""abc""#, r#""""#, "true", r#""1 Gi""#] {
        check_mismatch(
            "Pod",
            &format!(r#"{{"spec":{{"overhead":{{"cpu":{quantity}}}}}}}"#),
            form,
        );
    }
    for quantity in ["1Kii", "1e", "5mi"] {
        let object = format!(r#"{{"spec":{{"overhead":{{"cpu":"{quantity}"}}}}}}"#);
        check_mismatch("Pod", &object, "unable to parse quantity's suffix");
    }
    for quantity in ["1", "-1.5", "+.5", "100m", "1e3", "1E-3", "2Ei", "3E", "-", "Mi"] {
        let (_, problems) = run(
            "Pod",
            &format!(r#"{{"spec":{{"overhead":{{"cpu":"{quantity}"}}}}}}"#),
        );
        assert_eq!(problems.type_error, None, "{quantity}");
    }
}

#[test]
fn base64_is_checked_to_the_byte() {
    for (text, at) in [
        ("!!", 0),
        ("QUJ", 3),
        ("QUI=x", 4),
        ("QQ=", 3),
        ("A", 1),
        ("QQ===", 4),
    ] {
        let object = format!(r#"{{"binaryData":{{"a":"{text}"}}}}"#);
        let wrong = run("ConfigMap", &object).1.type_error.expect(text);
        assert!(
            wrong.starts_with("illegal base64 data at input byte"),
            "{text}: {wrong}"
        );
        if text == "!!" || text.len() > 4 {
            assert_eq!(wrong, format!("illegal base64 data at input byte {at}"), "{text}");
        }
    }
    for text in ["", "QQ==", "QUI=", "QUJD", "QU\\nJD"] {
        assert_eq!(
            run("ConfigMap", &format!(r#"{{"binaryData":{{"a":"{text}"}}}}"#))
                .1
                .type_error,
            None,
            "{text}"
        );
    }
}

proptest! {
    #[test]
    fn pruning_any_object_twice_changes_nothing(tree in any_tree(), key in "(metadata|spec|status|kind)") {
        let mut object = Tree::Map(Map::from_iter([(key, tree)]));
        prune(shape("Pod"), &mut object);
        let mut again = object.clone();
        prop_assert_eq!(prune(shape("Pod"), &mut again).strict, Vec::new());
        prop_assert_eq!(again, object);
    }
}

//! kubebuilder's markers in comments correspond to attributes here: each row checks that the attribute yields the same
//! part of the CustomResourceDefinition as controller-gen does for the marker.
//!
//! <https://book.kubebuilder.io/reference/markers/crd-validation.html>

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::duplicated_attributes,
    reason = "kube takes one attribute for each value"
)]
#![allow(unreachable_pub, reason = "the derived types are public")]

use std::collections::BTreeMap;

use kube::{CustomResource, CustomResourceExt, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(CustomResource, KubeSchema, Debug, Clone, Serialize, Deserialize)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Marked",
    plural = "marks",
    singular = "mark"
)]
#[kube(shortname = "mk", category = "all", namespaced, status = "MarkedStatus")]
#[kube(doc = "All of it.")]
#[kube(
    annotation("a", "1"),
    label("b", "2"),
    deprecated = "use v2",
    served = false,
    storage = false
)]
#[kube(selectable = ".spec.size")]
#[kube(scale(
    spec_replicas_path = ".spec.size",
    status_replicas_path = ".status.size",
    label_selector_path = ".status.selector"
))]
#[kube(printcolumn(name = "Size", type_ = "integer", json_path = ".spec.size", priority = 1))]
#[x_kube(validation = Rule::new("self.size < 9 || self.name != ''").message("large ones have names"))]
#[serde(rename_all = "camelCase")]
pub struct MarkedSpec {
    /// How large.
    #[schemars(range(min = 1, max = 10), extend("multipleOf" = 2.0))]
    size: i32,
    #[schemars(range(min = 0))]
    ratio: f64,
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z]+$"), title = "The name")]
    #[serde(default)]
    name: String,
    #[schemars(length(min = 1, max = 5), inner(length(max = 3)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    words: Vec<String>,
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    ports: Vec<Port>,
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    #[schemars(extend("minProperties" = 1, "maxProperties" = 4))]
    labels: BTreeMap<String, String>,
    // kube's StructMerge has no counterpart in CustomResourceDefinitions; a struct is a map there.
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    whole: Port,
    color: Color,
    maybe: Option<bool>,
    #[schemars(extend("format" = "date-time"))]
    since: String,
    #[schemars(schema_with = "any_object")]
    anything: Value,
    #[schemars(schema_with = "embedded")]
    template: Value,
    #[schemars(schema_with = "int_or_string")]
    port: Value,
    #[x_kube(validation = Rule::new("self == oldSelf").message("it stays").field_path("."))]
    fixed: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Port {
    name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub enum Color {
    Red,
    Green,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MarkedStatus {
    size: i32,
    selector: String,
}

fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn embedded(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true})
}

fn int_or_string(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-int-or-string": true})
}

/// The path of the schema of the spec.
const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";

/// A marker, the path of its value in the CRD, and the value.
type Row = (&'static str, &'static str, Value);

#[track_caller]
fn check(root: &str, rows: &[Row]) {
    let crd = serde_json::to_value(Marked::crd()).unwrap();
    let root = crd.pointer(root).unwrap();
    let mismatches: Vec<String> = rows
        .iter()
        .filter(|(_, path, value)| root.pointer(path) != Some(value))
        .map(|(marker, path, value)| format!("{marker}: {path} is {:?}, not {value}", root.pointer(path)))
        .collect();
    assert!(mismatches.is_empty(), "{}\n{root:#}", mismatches.join("\n"));
}

/// CR3
#[test]
fn cr3_markers_of_a_kind_are_attributes() {
    check(
        "",
        &[
            ("resource:path", "/spec/names/plural", json!("marks")),
            ("resource:singular", "/spec/names/singular", json!("mark")),
            ("resource:shortName", "/spec/names/shortNames", json!(["mk"])),
            ("resource:categories", "/spec/names/categories", json!(["all"])),
            ("resource:scope", "/spec/scope", json!("Namespaced")),
            ("metadata:annotations", "/metadata/annotations/a", json!("1")),
            ("metadata:labels", "/metadata/labels/b", json!("2")),
            ("unservedversion", "/spec/versions/0/served", json!(false)),
            ("storageversion", "/spec/versions/0/storage", json!(false)),
            ("deprecatedversion", "/spec/versions/0/deprecated", json!(true)),
            (
                "deprecatedversion:warning",
                "/spec/versions/0/deprecationWarning",
                json!("use v2"),
            ),
            (
                "subresource:status",
                "/spec/versions/0/subresources/status",
                json!({}),
            ),
            (
                "subresource:scale",
                "/spec/versions/0/subresources/scale",
                json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
                    "labelSelectorPath": ".status.selector"}),
            ),
            (
                "printcolumn",
                "/spec/versions/0/additionalPrinterColumns/0",
                json!({"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}),
            ),
            (
                "selectablefield",
                "/spec/versions/0/selectableFields",
                json!([{"jsonPath": ".spec.size"}]),
            ),
        ],
    );
}

/// CR3
#[test]
fn cr3_markers_of_a_field_are_attributes() {
    check(
        SPEC,
        &[
            ("description", "/properties/size/description", json!("How large.")),
            ("validation:Minimum", "/properties/size/minimum", json!(1.0)),
            ("validation:Maximum", "/properties/size/maximum", json!(10.0)),
            ("validation:MultipleOf", "/properties/size/multipleOf", json!(2.0)),
            ("validation:MinLength", "/properties/name/minLength", json!(1)),
            ("validation:MaxLength", "/properties/name/maxLength", json!(63)),
            (
                "validation:Pattern",
                "/properties/name/pattern",
                json!("^[a-z]+$"),
            ),
            ("validation:MinItems", "/properties/words/minItems", json!(1)),
            ("validation:MaxItems", "/properties/words/maxItems", json!(5)),
            (
                "validation:items:MaxLength",
                "/properties/words/items/maxLength",
                json!(3),
            ),
            (
                "validation:MinProperties",
                "/properties/labels/minProperties",
                json!(1),
            ),
            (
                "validation:MaxProperties",
                "/properties/labels/maxProperties",
                json!(4),
            ),
            (
                "validation:Enum",
                "/properties/color/enum",
                json!(["Red", "Green"]),
            ),
            (
                "validation:Format",
                "/properties/since/format",
                json!("date-time"),
            ),
            ("default", "/properties/name/default", json!("")),
            ("nullable", "/properties/maybe/nullable", json!(true)),
            ("title", "/properties/name/title", json!("The name")),
        ],
    );
}

/// CR3
#[test]
fn cr3_markers_of_merging_and_of_rules_are_attributes() {
    check(
        SPEC,
        &[
            (
                "listType=set",
                "/properties/words/x-kubernetes-list-type",
                json!("set"),
            ),
            (
                "listType=map",
                "/properties/ports/x-kubernetes-list-type",
                json!("map"),
            ),
            (
                "listMapKey",
                "/properties/ports/x-kubernetes-list-map-keys",
                json!(["name"]),
            ),
            (
                "mapType",
                "/properties/labels/x-kubernetes-map-type",
                json!("atomic"),
            ),
            (
                "structType",
                "/properties/whole/x-kubernetes-map-type",
                json!("atomic"),
            ),
            (
                "validation:XIntOrString",
                "/properties/port/x-kubernetes-int-or-string",
                json!(true),
            ),
            (
                "validation:EmbeddedResource",
                "/properties/template/x-kubernetes-embedded-resource",
                json!(true),
            ),
            (
                "pruning:PreserveUnknownFields",
                "/properties/anything/x-kubernetes-preserve-unknown-fields",
                json!(true),
            ),
            (
                "validation:XValidation",
                "/x-kubernetes-validations/0",
                json!({"rule": "self.size < 9 || self.name != ''", "message": "large ones have names"}),
            ),
            (
                "immutable",
                "/properties/fixed/x-kubernetes-validations/0/rule",
                json!("self == oldSelf"),
            ),
        ],
    );
}

/// CR3
#[test]
fn cr3_a_field_is_required_unless_it_has_a_default_or_is_an_option() {
    let crd = serde_json::to_value(Marked::crd()).unwrap();
    let required = crd.pointer(&format!("{SPEC}/required")).unwrap();
    let is_required = |field: &str| required.as_array().unwrap().contains(&json!(field));
    assert!(
        is_required("size") && !is_required("name") && !is_required("maybe"),
        "{required}"
    );
}

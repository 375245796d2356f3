//! CustomResourceDefinition (CRD): defines a custom kind by its names, versions and schemas.
//!
//! A CRD is served once its names are accepted. It is deleted in two steps: the deletion marks it as terminating, and
//! the finalizer keeps it until all its custom objects are deleted.

mod conversion;
mod etcd;
mod internal;
mod names;
mod options;
mod schema;
mod selectable_fields;
mod versions;
mod warnings;

use bytes::Bytes;

use setpoint_api::table::Cell;
use setpoint_schema::{EmptyCollections, Map, Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::custom::{
    compression,
    crd::{self, CLEANUP},
};
use setpoint_strategy::{
    EtcdEncoding, FieldRef, InvalidObject, Names, RequestFacts, Rules, Scope, Strategy, Subresource, meta,
    top_level,
};

use options::ValidationOptions;

#[derive(Debug)]
pub struct CustomResourceDefinition;

impl Strategy for CustomResourceDefinition {
    const KIND: (&'static str, &'static str, &'static str) = crd::KIND;
    const NAMES: Names = Names::new(crd::PLURAL, "customresourcedefinition")
        .short(&["crd", "crds"])
        .categories(&["api-extensions"]);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Scope", |crd, _| {
            columns::or_empty(&crd.at(fields::SPEC).at(fields::SCOPE))
        })
        .description("Whether custom objects are namespaced."),
        Column::text("Versions", |crd, _| Cell::from(versions::print(crd)))
            .description("The served versions, and the storage version."),
        Column::date("Created At", |crd, _| {
            columns::or_empty(&crd.at(fields::METADATA).at(fields::CREATION_TIMESTAMP))
        })
        .description("When the object was created."),
        Column::text("Group", |crd, _| {
            columns::or_empty(&crd.at(fields::SPEC).at(fields::GROUP))
        })
        .wide()
        .description("The API group."),
        Column::text("Kind", |crd, _| {
            columns::or_empty(&crd.at(fields::SPEC).at(fields::NAMES).at(fields::KIND))
        })
        .wide()
        .description("The kind."),
        Column::text("ShortNames", |crd, _| {
            let names: Vec<&str> = crd
                .at(fields::SPEC)
                .at(fields::NAMES)
                .at(fields::SHORT_NAMES)
                .strs()
                .collect();
            Cell::from(names.join(","))
        })
        .wide()
        .description("The short names of the resource."),
        Column::boolean("Established", |crd, _| Cell::Boolean(is_established(crd)))
            .wide()
            .description("Whether the resource is served."),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT
        .no_unconditional_update()
        .tracks_generation()
        .unqualified_finalizers()
        .discovery_storage_version("v1beta1")
        .error_storage_path("apiextensions.k8s.io/customresourcedefinitions")
        .etcd_encoding(EtcdEncoding::JsonIn("v1beta1"))
        .empty(EmptyCollections::Keep)
        .repeats_causes();

    fn default_fields(crd: &mut Tree) {
        let spec = crd.child(fields::SPEC);
        if spec.get(fields::CONVERSION).is_none_or(Tree::is_null) {
            spec.set(&[fields::CONVERSION, fields::STRATEGY], "None");
        }
        let names = spec.child(fields::NAMES);
        let kind = names.str_at(&[fields::KIND]).unwrap_or_default().to_owned();
        if !kind.is_empty() {
            names.set_default(fields::SINGULAR, kind.to_lowercase());
            names.set_default(fields::LIST_KIND, format!("{kind}List"));
        }
        let conversion = spec.at_mut(&[fields::CONVERSION, fields::WEBHOOK, fields::CLIENT_CONFIG]);
        if let Some(service) = conversion.and_then(|config| config.find_mut(fields::SERVICE)) {
            service.set_default(fields::PORT, 443);
        }
        if stored_versions(crd).is_empty() {
            add_stored_version(crd);
        }
    }

    fn prepare_create(crd: &mut Tree, _facts: &RequestFacts) {
        top_level::drop(crd, fields::STATUS);
        add_stored_version(crd);
    }

    fn prepare_update(crd: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(crd, old, fields::STATUS);
        add_stored_version(crd);
    }

    fn changes_spec(crd: &Tree, old: &Tree) -> bool {
        !is_same(crd.get(fields::SPEC), old.get(fields::SPEC))
    }

    fn validate(crd: &FieldRef<'_>, _facts: &RequestFacts) {
        names::validate_object_name(crd);
        validate_spec(&crd.at(fields::SPEC), &ValidationOptions::of_create());
        validate_status(crd);
        versions::validate_stored(crd);
        names::validate_approval(crd, None);
        validate_preserve_unknown_fields(crd, None);
    }

    fn validate_for_update(crd: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let (spec, old_spec) = (crd.at(fields::SPEC), old.at(fields::SPEC));
        let options = ValidationOptions::of_update(crd, old);
        validate_spec(&spec, &options);
        names::validate_update(&spec, &old_spec, options.require_immutable_names);
        validate_status(crd);
        versions::validate_stored(crd);
        names::validate_approval(crd, Some(old));
        validate_preserve_unknown_fields(crd, Some(old));
    }

    fn validate_status(crd: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_status(crd);
    }

    fn warnings(crd: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        warnings::of(crd, old)
    }

    fn begin_deletion(crd: &mut Tree) {
        let mut finalizers = meta::find(crd, fields::FINALIZERS)
            .and_then(Tree::as_list)
            .unwrap_or_default()
            .to_vec();
        if !finalizers.iter().any(|name| name.as_str() == Some(CLEANUP)) {
            finalizers.push(CLEANUP.into());
        }
        let at = meta::find(crd, fields::DELETION_TIMESTAMP).cloned();
        meta::set(crd, fields::FINALIZERS, finalizers);
        let condition: Map = [
            (fields::TYPE, Tree::from("Terminating")),
            (fields::STATUS, Tree::from("True")),
            (fields::LAST_TRANSITION_TIME, at.unwrap_or_default()),
            (fields::REASON, Tree::from("InstanceDeletionPending")),
            (
                fields::MESSAGE,
                Tree::from(
                    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
                ),
            ),
        ]
        .into_iter()
        .collect();
        let conditions = crd
            .child(fields::STATUS)
            .map_or_default()
            .entry(fields::CONDITIONS);
        let mut list = conditions.as_list().unwrap_or_default().to_vec();
        list.retain(|condition| condition.str_at(&[fields::TYPE]) != Some("Terminating"));
        list.push(condition.into());
        *conditions = list.into();
    }

    const COMPRESSES: bool = true;

    fn compress(json: &[u8]) -> Option<Vec<u8>> {
        compression::compress(json)
    }

    fn decompress(json: &Bytes) -> Result<Bytes, InvalidObject> {
        compression::decompress(json)
    }

    fn convert_to_etcd(crd: &mut Tree) {
        etcd::to_v1beta1(crd);
    }

    fn convert_from_etcd(crd: &mut Tree) {
        etcd::from_v1beta1(crd);
    }

    // The first deletion only marks the CRD; from then on the finalizer keeps it.
    fn is_held(crd: &Tree) -> bool {
        !meta::is_deleting(crd)
    }
}

/// Validates the spec, in the order of upstream's `validateCustomResourceDefinitionSpec`.
fn validate_spec(spec: &FieldRef<'_>, options: &ValidationOptions) {
    names::validate_group(&spec.at(fields::GROUP));
    spec.at(fields::SCOPE).require_one_of(&["Cluster", "Namespaced"]);
    versions::validate_schemas_exist(spec, options);
    versions::validate(spec, options);
    names::validate_present(&spec.at(fields::NAMES));
    names::validate(&spec.at(fields::NAMES));
    versions::validate_shared(spec, options);
    conversion::validate(spec, options);
}

fn validate_status(crd: &FieldRef<'_>) {
    names::validate(&crd.at(fields::STATUS).at(fields::ACCEPTED_NAMES));
}

/// Whether two values are the same as Go values: an empty or false one is an absent one.
fn is_same(value: Option<&Tree>, other: Option<&Tree>) -> bool {
    let set = |value: Option<&Tree>| match value {
        None | Some(Tree::Null | Tree::Bool(false)) => false,
        Some(Tree::Str(text)) => !text.is_empty(),
        Some(Tree::List(items)) => !items.is_empty(),
        Some(_) => true,
    };
    match (value, other) {
        (Some(Tree::Map(map)), Some(Tree::Map(other))) => {
            // Each pair is compared once: twice at every level would take exponential time.
            let mut pairs = map.iter();
            let mut added = other.iter().filter(|(key, _)| map.get(key).is_none());
            pairs.all(|(key, value)| is_member_same(key, Some(value), other.get(key)))
                && added.all(|(key, value)| is_member_same(key, None, Some(value)))
        }
        (Some(Tree::List(items)), Some(Tree::List(other))) => {
            let mut pairs = items.iter().zip(other);
            items.len() == other.len() && pairs.all(|(item, other)| is_same(Some(item), Some(other)))
        }
        _ if !set(value) || !set(other) => set(value) == set(other),
        (Some(value), Some(other)) => value.semantic_eq(other),
        _ => false,
    }
}

/// The same for a field: raw JSON is compared as it is, and an empty map of schemas is an absent one.
fn is_member_same(name: &str, value: Option<&Tree>, other: Option<&Tree>) -> bool {
    let is_empty = |value: &&Tree| value.as_map().is_some_and(Map::is_empty);
    match name {
        fields::DEFAULT | fields::EXAMPLE => match (value, other) {
            (Some(value), Some(other)) => value.unordered_eq(other),
            (value, other) => value.is_none() && other.is_none(),
        },
        fields::PROPERTIES | fields::PATTERN_PROPERTIES | fields::DEFINITIONS | fields::DEPENDENCIES => {
            let [value, other] = [value, other].map(|value| value.filter(|value| !is_empty(value)));
            is_same(value, other)
        }
        fields::ADDITIONAL_PROPERTIES | fields::ADDITIONAL_ITEMS if value.is_some() != other.is_some() => {
            false
        }
        _ => is_same(value, other),
    }
}

/// Only an object that has the field already may keep it.
fn validate_preserve_unknown_fields(crd: &FieldRef<'_>, old: Option<&FieldRef<'_>>) {
    let preserves = crd.at(fields::SPEC).at(fields::PRESERVE_UNKNOWN_FIELDS);
    let is_old = old.is_some_and(|old| old.at(fields::SPEC).at(fields::PRESERVE_UNKNOWN_FIELDS).bool());
    if preserves.bool() && !is_old {
        preserves.invalid(
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        );
    }
}

fn is_established(crd: &FieldRef<'_>) -> bool {
    let mut conditions = crd.at(fields::STATUS).at(fields::CONDITIONS).items();
    conditions.any(|condition| {
        condition.at(fields::TYPE).str() == "Established" && condition.at(fields::STATUS).str() == "True"
    })
}

fn stored_versions(crd: &Tree) -> &[Tree] {
    let status = crd.get(fields::STATUS);
    status.map_or(&[], |status| status.items(fields::STORED_VERSIONS))
}

/// Adds the storage version to `status.storedVersions`.
fn add_stored_version(crd: &mut Tree) {
    let versions = crd
        .get(fields::SPEC)
        .map_or(&[][..], |spec| spec.items(fields::VERSIONS));
    let storage = |version: &&Tree| version.get(fields::STORAGE).and_then(Tree::as_bool) == Some(true);
    let Some(version) = versions.iter().find(storage) else {
        return;
    };
    let name = Tree::from(version.str_at(&[fields::NAME]).unwrap_or_default());
    let mut stored = stored_versions(crd).to_vec();
    if !stored.contains(&name) {
        stored.push(name);
        crd.set(&[fields::STATUS, fields::STORED_VERSIONS], stored);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value in a hundred maps.
    fn nested(value: &str) -> Tree {
        let depth = 100;
        let json = format!("{}{value}{}", "{\"not\":".repeat(depth), "}".repeat(depth));
        serde_json::from_str(&json).unwrap()
    }

    #[track_caller]
    fn check(value: &str, other: &str, expected: bool) {
        assert_eq!(is_same(Some(&nested(value)), Some(&nested(other))), expected);
        assert_eq!(is_same(Some(&nested(other)), Some(&nested(value))), expected);
    }

    #[test]
    fn deep_schemas_are_compared_in_linear_time() {
        check(r#"{"type": "object"}"#, r#"{"type": "object"}"#, true);
        check(r#"{"nullable": false}"#, "{}", true);
        check(r#"{"type": "object"}"#, "{}", false);
    }

    #[test]
    fn only_pointers_distinguish_empty_from_absent() {
        check(r#"{"properties": {}, "required": []}"#, "{}", true);
        check(r#"{"default": ""}"#, "{}", false);
        check(r#"{"additionalProperties": false}"#, "{}", false);
        check(r#"{"not": {}}"#, "{}", false);
    }
}

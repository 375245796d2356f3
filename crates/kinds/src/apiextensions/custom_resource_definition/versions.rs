//! Validation of a CRD's versions.
//!
//! Kubernetes' internal type has the fields that all versions share in the spec, and errors are reported there: a schema at
//! `spec.validation`, other fields at `spec.<field>`.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_schema::custom::Schema;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, name};

use super::options::ValidationOptions;
use super::{internal, schema, selectable_fields};

const COLUMN_TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: &[&str] = &[
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

/// The most bytes of a deprecation warning.
const MAX_WARNING_BYTES: usize = 256;

const NOT_A_PATH: &str = "must be a simple json path starting with .";

/// Whether all versions have the same value of a field.
pub(super) fn is_shared(versions: &FieldRef<'_>, field: &str) -> bool {
    let values: Vec<&Tree> = versions
        .items()
        .map(|version| version.at(field).value())
        .collect();
    values.windows(2).all(|pair| pair[0].semantic_eq(pair[1]))
}

/// Validates that versions have schemas, and that defaults are used only with pruning.
pub(super) fn validate_schemas_exist(spec: &FieldRef<'_>, options: &ValidationOptions) {
    let preserves = spec.at(fields::PRESERVE_UNKNOWN_FIELDS);
    let mut has_defaults = false;
    for version in spec.at(fields::VERSIONS).items() {
        let schema = version.at(fields::SCHEMA).at(fields::OPEN_APIV3_SCHEMA);
        has_defaults |= schema::has_defaults(schema.value());
        if schema.is_set() {
            continue;
        }
        if options.require_schema {
            schema.required("");
        } else if !preserves.bool() && version.at(fields::SERVED).bool() {
            schema.required("because otherwise all fields are pruned");
        }
    }
    if has_defaults && preserves.bool() {
        preserves.invalid("must be false in order to use defaults in the schema");
    }
}

/// Validates the fields of each version that are not shared by all, and the versions as a list.
pub(super) fn validate(spec: &FieldRef<'_>, options: &ValidationOptions) {
    let versions = spec.at(fields::VERSIONS);
    let mut names = BTreeSet::new();
    let mut unique = true;
    for version in versions.items() {
        unique &= names.insert(version.at(fields::NAME).str());
        report_name(&version.at(fields::NAME));
        validate_one(&version, &versions, options);
    }
    if !unique {
        versions.invalid_as(internal::versions(&versions), "must contain unique version names");
    }
    let stored = versions.items().filter(|one| one.at(fields::STORAGE).bool());
    if stored.count() != 1 {
        versions.invalid_as(
            internal::versions(&versions),
            "must have exactly one version marked as storage version",
        );
    }
    if let Some(first) = versions.items().next() {
        let first = first.at(fields::NAME);
        if !first.is_empty() {
            report_name(&first.with_errors(spec.errors().at(fields::VERSION)));
        }
    }
}

fn report_name(field: &FieldRef<'_>) {
    let violations = name::service(field.str());
    if !violations.is_empty() {
        field.invalid(&violations.join(","));
    }
}

fn validate_one(version: &FieldRef<'_>, versions: &FieldRef<'_>, options: &ValidationOptions) {
    validate_deprecation(version);
    let name = version.at(fields::NAME).str();
    let is_own = |field: &str| !is_shared(versions, field);
    if is_own(fields::SCHEMA) {
        let is_unchanged = options.is_schema_unchanged(name);
        schema::validate(
            &version.at(fields::SCHEMA),
            has_status(&subresources_of(name, versions)),
            is_unchanged,
        );
    }
    if is_own(fields::SUBRESOURCES) {
        validate_subresources(&version.at(fields::SUBRESOURCES));
    }
    if is_own(fields::ADDITIONAL_PRINTER_COLUMNS) {
        let columns = version.at(fields::ADDITIONAL_PRINTER_COLUMNS);
        columns.items().for_each(|column| validate_column(&column));
    }
    let selectable = version.at(fields::SELECTABLE_FIELDS);
    if is_own(fields::SELECTABLE_FIELDS) && !selectable.is_empty() {
        let schema = version.at(fields::SCHEMA).at(fields::OPEN_APIV3_SCHEMA);
        if is_own(fields::SCHEMA) && schema.is_set() {
            let schema = Schema::compile(schema.value());
            let allows_many = options.allows_many_selectable_fields(name);
            selectable_fields::validate(&selectable, &schema, allows_many);
        } else {
            let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
            selectable.invalid_as("", detail);
        }
    }
}

/// Validates the fields that all versions share.
pub(super) fn validate_shared(spec: &FieldRef<'_>, options: &ValidationOptions) {
    let versions = spec.at(fields::VERSIONS);
    let Some(first) = versions.items().next() else {
        return;
    };
    let shared = |field: &'static str, path: &str| {
        let value = first.at(field).with_errors(spec.errors().at(path));
        is_shared(&versions, field).then_some(value)
    };
    let validation = shared(fields::SCHEMA, "validation").filter(FieldRef::is_set);
    if let Some(validation) = &validation {
        let mut versions = versions.items();
        let has_status = versions.any(|version| has_status(&version.at(fields::SUBRESOURCES)));
        let is_unchanged = options.is_schema_unchanged(first.at(fields::NAME).str());
        schema::validate(validation, has_status, is_unchanged);
    }
    if let Some(subresources) = shared(fields::SUBRESOURCES, fields::SUBRESOURCES) {
        validate_subresources(&subresources);
    }
    let columns = fields::ADDITIONAL_PRINTER_COLUMNS;
    if let Some(columns) = shared(columns, columns) {
        columns.items().for_each(|column| validate_column(&column));
    }
    let selectable = shared(fields::SELECTABLE_FIELDS, fields::SELECTABLE_FIELDS);
    let Some(selectable) = selectable.filter(|selectable| !selectable.is_empty()) else {
        return;
    };
    match validation {
        Some(validation) => {
            let schema = Schema::compile(validation.at(fields::OPEN_APIV3_SCHEMA).value());
            let mut names = versions.items().map(|version| version.at(fields::NAME).str());
            let allows_many = names.all(|name| options.allows_many_selectable_fields(name));
            selectable_fields::validate(&selectable, &schema, allows_many);
        }
        None => selectable.invalid_as("", "may only be set when validations.schema is included"),
    }
}

fn subresources_of<'a>(name: &str, versions: &FieldRef<'a>) -> FieldRef<'a> {
    let mut versions = versions.items();
    match versions.find(|version| version.at(fields::NAME).str() == name) {
        Some(version) => version.at(fields::SUBRESOURCES),
        None => FieldRef::absent(),
    }
}

fn has_status(subresources: &FieldRef<'_>) -> bool {
    subresources.at(fields::STATUS).is_set()
}

fn validate_deprecation(version: &FieldRef<'_>) {
    let warning = version.at(fields::DEPRECATION_WARNING);
    if !warning.is_set() {
        return;
    }
    if !version.at(fields::DEPRECATED).bool() {
        return warning.invalid("can only be set for deprecated versions");
    }
    if warning.str().len() > MAX_WARNING_BYTES {
        warning.invalid("must be <= 256 characters long");
    }
    if warning.str().is_empty() {
        warning.invalid("must not be an empty string");
    }
    let is_printable =
        |character: char| character == ' ' || !(character.is_control() || character.is_whitespace());
    let mut characters = warning.str().char_indices();
    if let Some((at, _)) = characters.find(|(_, character)| !is_printable(*character)) {
        warning.invalid(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
}

fn validate_subresources(subresources: &FieldRef<'_>) {
    let scale = subresources.at(fields::SCALE);
    if !scale.is_set() {
        return;
    }
    for (field, under) in [
        (fields::SPEC_REPLICAS_PATH, ".spec"),
        (fields::STATUS_REPLICAS_PATH, ".status"),
    ] {
        let path = scale.at(field);
        if !path.require() {
            continue;
        }
        if !path.str().starts_with('.') {
            path.invalid(NOT_A_PATH);
        } else if !path.str().starts_with(&format!("{under}.")) {
            path.invalid(&format!("should be a json path under {under}"));
        }
    }
    let selector = scale.at(fields::LABEL_SELECTOR_PATH);
    if selector.is_empty() {
        return;
    }
    if !selector.str().starts_with('.') {
        selector.invalid(NOT_A_PATH);
    } else if !selector.str().starts_with(".spec.") && !selector.str().starts_with(".status.") {
        selector.invalid("should be a json path under either .spec or .status");
    }
}

fn validate_column(column: &FieldRef<'_>) {
    column.at(fields::NAME).require();
    let kinds = COLUMN_TYPES.join(",");
    let kind = column.at(fields::TYPE);
    if kind.is_empty() {
        kind.required(&format!("must be one of {kinds}"));
    } else if !COLUMN_TYPES.contains(&kind.str()) {
        kind.invalid(&format!("must be one of {kinds}"));
    }
    let format = column.at(fields::FORMAT);
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format.str()) {
        format.invalid(&format!("must be one of {}", COLUMN_FORMATS.join(",")));
    }
    let path = column.at(fields::JSON_PATH);
    let path = path.with_errors(column.errors().at("JSONPath"));
    if path.is_empty() {
        path.required("");
    } else if !path.str().starts_with('.') {
        path.invalid(NOT_A_PATH);
    }
}

/// The served versions for the table, with the storage version marked.
pub(super) fn print(crd: &FieldRef<'_>) -> String {
    let versions = crd.at(fields::SPEC).at(fields::VERSIONS);
    let served = versions
        .items()
        .filter(|version| version.at(fields::SERVED).bool() || version.at(fields::STORAGE).bool());
    let texts = served.map(|version| {
        let name = version.at(fields::NAME).str();
        let marks = match (
            version.at(fields::STORAGE).bool(),
            version.at(fields::SERVED).bool(),
        ) {
            (true, true) => "(storage)",
            (true, false) => "(storage,unserved)",
            (false, _) => "",
        };
        format!("{name}{marks}")
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Validates that `status.storedVersions` has the storage version, and only versions of the spec.
pub(super) fn validate_stored(crd: &FieldRef<'_>) {
    let stored = crd.at(fields::STATUS).at(fields::STORED_VERSIONS);
    if stored.is_empty() {
        return stored.invalid_as(None::<()>, "must have at least one stored version");
    }
    let indexes = stored.strs().enumerate();
    let mut unknown: BTreeMap<&str, usize> = indexes.map(|(index, name)| (name, index)).collect();
    for version in crd.at(fields::SPEC).at(fields::VERSIONS).items() {
        let name = version.at(fields::NAME).str();
        // Of two versions of the same name, the second is not found.
        let is_listed = unknown.contains_key(name);
        if version.at(fields::STORAGE).bool() && !is_listed {
            stored.invalid(&format!("must have the storage version {name}"));
        }
        unknown.remove(name);
    }
    for (name, index) in unknown {
        stored.errors().index(index).invalid(name, &format!("missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"));
    }
}

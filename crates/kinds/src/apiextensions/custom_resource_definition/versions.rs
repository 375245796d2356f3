//! Validation of a CRD's versions: which are served, which is stored, and how they are converted.

use std::collections::{BTreeSet, HashSet};

use setpoint_schema::custom::Schema;
use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::display::RawJson;
use setpoint_strategy::{FieldRef, name};

use super::schema;

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

pub(super) fn validate(crd: &FieldRef<'_>) {
    let spec = crd.at(fields::SPEC);
    let versions = spec.at(fields::VERSIONS);
    let mut names = BTreeSet::new();
    let mut unique = true;
    for version in versions.items() {
        name::check(&version.at(fields::NAME), name::service);
        unique &= names.insert(version.at(fields::NAME).str());
        validate_one(&version, crd);
    }
    if !unique {
        versions.invalid_as(internal_versions(&versions), "must contain unique version names");
    }
    let stored = versions
        .items()
        .filter(|version| version.at(fields::STORAGE).bool())
        .count();
    if stored != 1 {
        versions.invalid_as(
            internal_versions(&versions),
            "must have exactly one version marked as storage version",
        );
    }
    validate_conversion(&spec.at(fields::CONVERSION));
}

/// Validates one version. Kubernetes reports the fields of a single version at the top-level fields of the spec.
fn validate_one(version: &FieldRef<'_>, crd: &FieldRef<'_>) {
    let errors = match crd.at(fields::SPEC).at(fields::VERSIONS).len() {
        1 => crd.at(fields::SPEC).errors().clone(),
        _ => version.errors().clone(),
    };
    let at = |field: &str| version.at(field).with_errors(errors.at(field));
    for column in at(fields::ADDITIONAL_PRINTER_COLUMNS).items() {
        validate_column(&column);
    }
    let scale = at(fields::SUBRESOURCES).at(fields::SCALE);
    if scale.is_set() {
        validate_scale(&scale);
    }
    let schema = version.at(fields::SCHEMA).at(fields::OPEN_APIV3_SCHEMA);
    let compiled = Schema::compile(schema.value());
    for field in at(fields::SELECTABLE_FIELDS).items() {
        validate_selectable(&field, &compiled);
    }
    if version.at(fields::DEPRECATION_WARNING).is_set() && !version.at(fields::DEPRECATED).bool() {
        version
            .at(fields::DEPRECATION_WARNING)
            .invalid("can only be set for deprecated versions");
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
    } else if path.str().parse::<setpoint_strategy::custom::JsonPath>().is_err() {
        path.invalid("must be a simple json path starting with .");
    }
}

fn validate_scale(scale: &FieldRef<'_>) {
    for (field, under) in [
        (fields::SPEC_REPLICAS_PATH, ".spec"),
        (fields::STATUS_REPLICAS_PATH, ".status"),
    ] {
        let path = scale.at(field);
        if !path.require() {
            continue;
        }
        if !is_simple(path.str()) {
            path.invalid("must be a simple json path starting with .");
        } else if !path.str().starts_with(&format!("{under}.")) {
            path.invalid(&format!("should be a json path under {under}"));
        }
    }
    let selector = scale.at(fields::LABEL_SELECTOR_PATH);
    if !selector.is_empty() {
        if !is_simple(selector.str()) && !selector.str().starts_with('.') {
            selector.invalid("must be a simple json path starting with .");
        } else if !selector.str().starts_with(".spec.") && !selector.str().starts_with(".status.") {
            selector.invalid("should be a json path under either .spec or .status");
        }
    }
}

/// Whether a path consists of field names and dots only.
fn is_simple(path: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    path.strip_prefix('.')
        .is_some_and(|rest| rest.split('.').all(is_name))
}

fn validate_selectable(field: &FieldRef<'_>, schema: &Schema) {
    let path = field.at(fields::JSON_PATH);
    if !path.require() {
        return;
    }
    let steps: Vec<&str> = path.str().trim_start_matches('.').split('.').collect();
    let found = steps
        .iter()
        .try_fold(schema, |schema, step| schema.property(step));
    if steps.first() == Some(&fields::METADATA) || found.is_none() {
        path.invalid("is an invalid path: does not refer to a valid field");
    }
}

fn validate_conversion(conversion: &FieldRef<'_>) {
    conversion
        .at(fields::STRATEGY)
        .require_one_of(&["None", "Webhook"]);
    let webhook = conversion.at(fields::WEBHOOK);
    match conversion.at(fields::STRATEGY).str() {
        "Webhook" => {
            let config = webhook.at(fields::CLIENT_CONFIG);
            let config = config.with_errors(conversion.errors().at("webhookClientConfig"));
            if !webhook.is_set() || !config.is_set() {
                config.required("required when strategy is set to Webhook");
            } else if config.at(fields::URL).is_set() == config.at(fields::SERVICE).is_set() {
                config.required("exactly one of url or service is required");
            }
            let versions = webhook.at(fields::CONVERSION_REVIEW_VERSIONS);
            if versions.is_empty() {
                versions
                    .with_errors(conversion.errors().at(fields::CONVERSION_REVIEW_VERSIONS))
                    .required("");
            }
        }
        _ => {
            if webhook.at(fields::CLIENT_CONFIG).is_set() {
                let at = conversion.errors().at("webhookClientConfig");
                at.forbidden("should not be set when strategy is not set to Webhook");
            }
            if !webhook.at(fields::CONVERSION_REVIEW_VERSIONS).is_empty() {
                let at = conversion.errors().at(fields::CONVERSION_REVIEW_VERSIONS);
                at.forbidden("should not be set when strategy is not set to Webhook");
            }
        }
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

/// The storage version must be listed in `status.storedVersions`.
pub(super) fn validate_storage(crd: &FieldRef<'_>) {
    let stored = crd.at(fields::STATUS).at(fields::STORED_VERSIONS);
    let listed: HashSet<&str> = stored.strs().collect();
    for version in crd.at(fields::SPEC).at(fields::VERSIONS).items() {
        let name = version.at(fields::NAME).str();
        if version.at(fields::STORAGE).bool() && !stored.is_empty() && !listed.contains(name) {
            stored.invalid(&format!("must have the storage version {name}"));
        }
    }
}

/// Every version in `status.storedVersions` must still be in the spec.
pub(super) fn validate_stored(crd: &FieldRef<'_>) {
    let versions = crd.at(fields::SPEC).at(fields::VERSIONS);
    let known: HashSet<&str> = versions
        .items()
        .map(|version| version.at(fields::NAME).str())
        .collect();
    for stored in crd.at(fields::STATUS).at(fields::STORED_VERSIONS).items() {
        if !known.contains(stored.str()) {
            stored.invalid("missing from spec.versions; it was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in it and removes it from status.storedVersions");
        }
    }
}

/// The versions as Kubernetes' internal type has them: without the fields that all versions share.
fn internal_versions(versions: &FieldRef<'_>) -> RawJson {
    let held = versions.items().map(|version| {
        let mut map = Map::default();
        map.insert("Name", version.at(fields::NAME).str());
        for (shown, field) in [
            ("Served", fields::SERVED),
            ("Storage", fields::STORAGE),
            ("Deprecated", fields::DEPRECATED),
        ] {
            map.insert(shown, version.at(field).bool());
        }
        for shown in [
            "DeprecationWarning",
            "Schema",
            "Subresources",
            "AdditionalPrinterColumns",
            "SelectableFields",
        ] {
            map.insert(shown, Tree::Null);
        }
        Tree::from(map)
    });
    RawJson::from_tree(&Tree::from(held.collect::<Vec<Tree>>()))
}

/// The schemas of all versions, each with the field path at which Kubernetes reports it.
pub(super) fn schemas<'a>(crd: &FieldRef<'a>) -> Vec<FieldRef<'a>> {
    let versions = crd.at(fields::SPEC).at(fields::VERSIONS);
    let alike = schema::are_equal(&versions);
    let schemas = versions.items().map(|version| {
        let schema = version.at(fields::SCHEMA).at(fields::OPEN_APIV3_SCHEMA);
        match alike {
            true => {
                let errors = crd
                    .at(fields::SPEC)
                    .errors()
                    .at("validation")
                    .at(fields::OPEN_APIV3_SCHEMA);
                schema.with_errors(errors)
            }
            false => schema,
        }
    });
    let mut schemas: Vec<FieldRef<'a>> = schemas.collect();
    if alike {
        schemas.truncate(1);
    }
    schemas
}

//! Volumes with files from the API: secrets, config maps, the downward API.

use setpoint_schema::fields;
use setpoint_strategy::FieldRef;

use super::super::{env, paths};

/// The pod fields that a downward API file may reference.
const FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// Validates a secret or config map volume; `named` is the field with the object's name.
pub(super) fn validate(source: &FieldRef<'_>, named: &str) {
    source.at(named).require();
    paths::check_mode(&source.at(fields::DEFAULT_MODE));
    source
        .at(fields::ITEMS)
        .items()
        .for_each(|item| validate_item(&item));
}

/// Validates a key-to-path item.
pub(super) fn validate_item(item: &FieldRef<'_>) {
    item.at(fields::KEY).require();
    item.at(fields::PATH).require();
    paths::check_local_path(&item.at(fields::PATH));
    paths::check_mode(&item.at(fields::MODE));
}

/// Validates a downward API volume.
pub(super) fn validate_downward(source: &FieldRef<'_>) {
    paths::check_mode(&source.at(fields::DEFAULT_MODE));
    for file in source.at(fields::ITEMS).items() {
        validate_field(&file.with_errors(source.errors().clone()));
    }
}

/// Validates a downward API file.
pub(super) fn validate_field(file: &FieldRef<'_>) {
    file.at(fields::PATH).require();
    paths::check_local_path(&file.at(fields::PATH));
    let (field, amount) = (file.at(fields::FIELD_REF), file.at(fields::RESOURCE_FIELD_REF));
    if field.is_set() {
        env::validate_field(&field, FIELDS);
        if amount.is_set() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            file.invalid_as("resource", detail);
        }
    } else if amount.is_set() {
        env::validate_amount_in_file(&amount);
    } else {
        file.required("one of fieldRef and resourceFieldRef is required");
    }
    paths::check_mode(&file.at(fields::MODE));
}

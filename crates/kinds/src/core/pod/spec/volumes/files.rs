//! Volumes whose files come from the API: secrets, config maps, fields of the pod.

use crate::at::At;

use super::super::{env, paths};

/// The fields of its pod that a file may hold.
const FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// Reports what is wrong with files of a secret or a config map; `named` is the field with its name.
pub(super) fn validate(source: &At<'_>, named: &str) {
    source.at(named).require();
    paths::check_mode(&source.at("defaultMode"));
    source.at("items").items().for_each(|item| validate_item(&item));
}

/// Reports what is wrong with an entry that becomes a file.
pub(super) fn validate_item(item: &At<'_>) {
    item.at("key").require();
    item.at("path").require();
    paths::check_local(&item.at("path"));
    paths::check_mode(&item.at("mode"));
}

/// Reports what is wrong with files of fields of the pod.
pub(super) fn validate_downward(source: &At<'_>) {
    paths::check_mode(&source.at("defaultMode"));
    for file in source.at("items").items() {
        validate_field(&file.reported_at(source.errors().clone()));
    }
}

/// Reports what is wrong with a field of the pod that becomes a file.
pub(super) fn validate_field(file: &At<'_>) {
    file.at("path").require();
    paths::check_local(&file.at("path"));
    let (field, amount) = (file.at("fieldRef"), file.at("resourceFieldRef"));
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
    paths::check_mode(&file.at("mode"));
}

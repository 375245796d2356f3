//! ConfigMap: configuration data for pods. Its data may be marked immutable.

use setpoint_api::table::Cell;
use setpoint_schema::fields;
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Strategy, name};

/// The size limit of data, chosen by Kubernetes to fit into one etcd value.
const MAX_BYTES: usize = 1024 * 1024;

#[derive(Debug)]
pub struct ConfigMap;

impl Strategy for ConfigMap {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "ConfigMap");
    const NAMES: Names = Names::new("configmaps", "configmap").short(&["cm"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Data", |map, _| {
            let entries = map.at(fields::DATA).len() + map.at(fields::BINARY_DATA).len();
            Cell::from(i64::try_from(entries).expect("entries fit into memory"))
        })
        .description("The number of entries."),
        columns::AGE,
    ];

    fn validate(map: &FieldRef<'_>, _facts: &RequestFacts) {
        let mut bytes = 0;
        for (key, value) in map.at(fields::DATA).entries() {
            name::report(key, name::config_key(key), value.errors());
            if map.at(fields::BINARY_DATA).key(key).is_set() {
                value.invalid_as(key, "duplicate of key present in binaryData");
            }
            bytes += value.str().len();
        }
        for (key, value) in map.at(fields::BINARY_DATA).entries() {
            name::report(key, name::config_key(key), value.errors());
            bytes += decoded_len(value.str());
        }
        if bytes > MAX_BYTES {
            map.errors().at("[]").too_long(MAX_BYTES);
        }
    }

    fn validate_update(map: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        if !old.at(fields::IMMUTABLE).bool() {
            return;
        }
        let immutable = "field is immutable when `immutable` is set";
        if !map.at(fields::IMMUTABLE).bool() {
            map.at(fields::IMMUTABLE).forbidden(immutable);
        }
        for field in [fields::DATA, fields::BINARY_DATA] {
            if !map.at(field).is_same(&old.at(field)) {
                map.at(field).forbidden(immutable);
            }
        }
    }
}

/// The decoded length of a base64 string.
pub(crate) fn decoded_len(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

//! ConfigMap: plain configuration for pods. Immutable once it says so.

use k8s_openapi::api::core::v1::ConfigMap;

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;

use crate::columns::{self, Column};
use crate::shared::name;
use crate::strategy::{Names, Strategy};

/// How much one config map may hold, keys not counted.
const MOST_BYTES: usize = 1024 * 1024;

impl Strategy for ConfigMap {
    const NAMES: Names = Names::new("configmaps", "configmap").short(&["cm"]);
    const COLUMNS: &'static [Column<Self>] = &[
        columns::name(),
        Column::text("Data", |map, _| Cell::from(entries(map))).about("How many entries it has."),
        columns::age(),
    ];

    fn validate(&self, errors: &Errors<'_>) {
        let mut bytes = 0;
        for (key, value) in self.data.iter().flatten() {
            name::report(key, name::config_key(key), &errors.at("data").key(key));
            let twice = self
                .binary_data
                .as_ref()
                .is_some_and(|data| data.contains_key(key));
            if twice {
                let detail = "duplicate of key present in binaryData";
                errors.at("data").key(key).invalid(key, detail);
            }
            bytes += value.len();
        }
        for (key, value) in self.binary_data.iter().flatten() {
            name::report(key, name::config_key(key), &errors.at("binaryData").key(key));
            bytes += value.0.len();
        }
        if bytes > MOST_BYTES {
            errors.at("").too_long(MOST_BYTES);
        }
    }

    fn validate_update(&self, old: &Self, errors: &Errors<'_>) {
        if old.immutable != Some(true) {
            return;
        }
        let immutable = "field is immutable when `immutable` is set";
        if self.immutable != Some(true) {
            errors.at("immutable").forbidden(immutable);
        }
        if self.data != old.data {
            errors.at("data").forbidden(immutable);
        }
        if self.binary_data != old.binary_data {
            errors.at("binaryData").forbidden(immutable);
        }
    }
}

fn entries(map: &ConfigMap) -> i64 {
    let data = map.data.as_ref().map_or(0, |data| data.len());
    let binary = map.binary_data.as_ref().map_or(0, |data| data.len());
    i64::try_from(data + binary).expect("entries fit into memory")
}

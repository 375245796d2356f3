//! Opaque driver configuration, and device selectors.

use setpoint_schema::{Tree, fields};
use setpoint_strategy::FieldRef;

use super::format;

const MAX_SELECTORS: usize = 32;
const PARAMETERS_BYTES: usize = 10 * 1024;

/// Validates a driver configuration.
pub(super) fn validate(configuration: &FieldRef<'_>) {
    let opaque = configuration.at(fields::OPAQUE);
    if opaque.is_set() {
        validate_parameters(&opaque.at(fields::PARAMETERS));
    } else {
        opaque.required("");
    }
}

/// Reports what upstream's declarative validation reports.
pub(super) fn validate_declarative(configuration: &FieldRef<'_>) {
    let opaque = configuration.at(fields::OPAQUE);
    if opaque.is_set() {
        format::check_driver_declarative(&opaque.at(fields::DRIVER));
    }
}

fn validate_parameters(parameters: &FieldRef<'_>) {
    match parameters.value() {
        Tree::Null => parameters.required(""),
        Tree::Map(_) => {
            let mut text = Vec::new();
            setpoint_schema::write::write_tree(parameters.value(), &mut text);
            if text.len() > PARAMETERS_BYTES {
                parameters.too_long(PARAMETERS_BYTES);
            }
        }
        _ => parameters.invalid_as("<value omitted>", "must be a valid JSON object"),
    }
}

/// Reports what upstream's declarative validation reports.
pub(super) fn validate_declarative_selectors(selectors: &FieldRef<'_>) {
    format::check_max_items(selectors, MAX_SELECTORS);
}

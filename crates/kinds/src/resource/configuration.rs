//! What is handed on to drivers as it is, and selectors of devices.

use setpoint_schema::Tree;

use super::form;
use crate::at::At;

const MOST_SELECTORS: usize = 32;
const EXPRESSION_BYTES: usize = 10 * 1024;
const PARAMETERS_BYTES: usize = 10 * 1024;

/// Reports what is wrong with a configuration.
pub(super) fn validate(configuration: &At<'_>) {
    let opaque = configuration.at("opaque");
    if opaque.is_set() {
        validate_parameters(&opaque.at("parameters"));
    } else {
        opaque.required("");
    }
}

/// Reports what the declared rules of the shape find.
pub(super) fn declared(configuration: &At<'_>) {
    let opaque = configuration.at("opaque");
    if opaque.is_set() {
        form::declared_driver(&opaque.at("driver"));
    }
}

fn validate_parameters(parameters: &At<'_>) {
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

/// Reports what is wrong with selectors but for the expressions themselves.
pub(super) fn validate_selectors(selectors: &At<'_>) {
    if selectors.len() > MOST_SELECTORS {
        return;
    }
    for selector in selectors.items() {
        let cel = selector.at("cel");
        if !cel.is_set() {
            cel.required("");
        } else if cel.at("expression").str().len() > EXPRESSION_BYTES {
            cel.at("expression").too_long(EXPRESSION_BYTES);
        }
    }
}

/// Reports what the declared rules of the shape find.
pub(super) fn declared_selectors(selectors: &At<'_>) {
    form::at_most(selectors, MOST_SELECTORS);
}

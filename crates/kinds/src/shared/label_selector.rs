//! Label selectors inside objects: their rules and their printed form.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use setpoint_api::field::Errors;
use setpoint_api::selector;

use super::name;
use crate::columns::NONE;

/// Reports what is wrong with a selector.
pub fn validate(selector: &LabelSelector, errors: &Errors<'_>) {
    for (label, value) in selector.match_labels.iter().flatten() {
        let errors = errors.at("matchLabels");
        name::report(label, name::qualified(label), &errors);
        name::report(value, name::label_value(value), &errors);
    }
    for (at, expression) in selector.match_expressions.iter().flatten().enumerate() {
        let errors = errors.at("matchExpressions");
        let errors = errors.index(at);
        let values = expression.values.as_deref().unwrap_or_default();
        match expression.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => errors
                .at("values")
                .required("must be specified when `operator` is 'In' or 'NotIn'"),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors
                .at("values")
                .forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors
                .at("operator")
                .invalid(other, "not a valid selector operator"),
        }
        name::report(
            &expression.key,
            name::qualified(&expression.key),
            &errors.at("key"),
        );
        for (at, value) in values.iter().enumerate() {
            name::report(value, name::label_value(value), &errors.at("values").index(at));
        }
    }
}

/// Whether it selects everything.
pub fn is_empty(selector: &LabelSelector) -> bool {
    selector
        .match_labels
        .as_ref()
        .is_none_or(|labels| labels.is_empty())
        && selector
            .match_expressions
            .as_ref()
            .is_none_or(|list| list.is_empty())
}

/// The selector as people read it.
pub fn print(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else {
        return NONE.to_owned();
    };
    match selector::LabelSelector::try_from(selector) {
        Ok(parsed) if parsed.is_empty() => NONE.to_owned(),
        Ok(parsed) => parsed.to_string(),
        Err(_) => "<error>".to_owned(),
    }
}

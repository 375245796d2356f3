//! Label selectors inside objects: their rules and their printed form.

use setpoint_api::field::Errors;
use setpoint_api::selector::{LabelSelector, Operator, Requirement};
use setpoint_schema::{Map, Tree};

use super::name;
use crate::at::At;
use crate::columns::NONE;

/// Reports what is wrong with a selector.
pub fn validate(selector: &At<'_>) {
    let labels = selector.at("matchLabels");
    for (label, value) in labels.entries() {
        name::report(label, name::qualified(label), labels.errors());
        name::report(value.str(), name::label_value(value.str()), labels.errors());
    }
    for expression in selector.at("matchExpressions").items() {
        validate_expression(&expression);
        for value in expression.at("values").items() {
            name::check(&value, name::label_value);
        }
    }
}

/// Reports what is wrong with a selector, but not values that no label has.
pub fn validate_but_values(selector: &At<'_>) {
    crate::meta::validate_labels(&selector.at("matchLabels"));
    for expression in selector.at("matchExpressions").items() {
        validate_expression(&expression);
    }
}

fn validate_expression(expression: &At<'_>) {
    let values = expression.at("values");
    match expression.at("operator").str() {
        "In" | "NotIn" if values.is_empty() => {
            values.required("must be specified when `operator` is 'In' or 'NotIn'")
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => expression.at("operator").invalid("not a valid selector operator"),
    }
    name::check(&expression.at("key"), name::qualified);
}

/// Whether an object's selector selects what has these labels. One that is empty selects everything, one that is not
/// there nothing. `None` if it is no selector at all.
pub fn selects(selector: &At<'_>, labels: &At<'_>) -> Option<bool> {
    let errors = Errors::default();
    validate(&selector.reported_at(errors.clone()));
    if !errors.is_empty() {
        return None;
    }
    let parsed = parse(selector.value()).ok()?;
    Some(selector.is_set() && matches(&parsed, labels))
}

/// Whether it selects everything.
pub fn is_empty(selector: &At<'_>) -> bool {
    selector.at("matchLabels").is_empty() && selector.at("matchExpressions").is_empty()
}

/// The selector that an object says, to match labels with. Without one it selects everything.
pub fn parse(selector: &Tree) -> Result<LabelSelector, String> {
    let labels = selector.get("matchLabels").and_then(Tree::as_map);
    let labels = labels.into_iter().flat_map(Map::iter);
    let mut requirements: Vec<Requirement> = labels
        .map(|(label, value)| Requirement {
            label: label.into(),
            operator: Operator::In(vec![value.as_str().unwrap_or_default().into()]),
        })
        .collect();
    for expression in selector.items("matchExpressions") {
        requirements.push(Requirement {
            label: expression.str_at(&["key"]).unwrap_or_default().into(),
            operator: operator(expression)?,
        });
    }
    Ok(LabelSelector { requirements })
}

fn operator(expression: &Tree) -> Result<Operator, String> {
    let values = || {
        let values = expression.items("values").iter();
        values.filter_map(Tree::as_str).map(Into::into).collect()
    };
    match expression.str_at(&["operator"]).unwrap_or_default() {
        "In" => Ok(Operator::In(values())),
        "NotIn" => Ok(Operator::NotIn(values())),
        "Exists" => Ok(Operator::Exists),
        "DoesNotExist" => Ok(Operator::Absent),
        other => Err(format!("{other:?} is not a valid label selector operator")),
    }
}

/// Whether a selector selects what has these labels.
pub fn matches(selector: &LabelSelector, labels: &At<'_>) -> bool {
    selector.matches(|label| labels.value().get(label).and_then(Tree::as_str))
}

/// The selector as people read it.
pub fn print(selector: &At<'_>) -> String {
    if !selector.is_set() {
        return NONE.to_owned();
    }
    match parse(selector.value()) {
        Ok(parsed) if parsed.is_empty() => NONE.to_owned(),
        Ok(parsed) => parsed.to_string(),
        Err(_) => "<error>".to_owned(),
    }
}

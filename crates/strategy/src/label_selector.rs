//! `metav1.LabelSelector` fields: validation, matching and printing.

use setpoint_api::field::Errors;
use setpoint_api::selector::{LabelSelector, Operator, Requirement};
use setpoint_schema::{Map, Tree, fields};

use super::name;
use crate::columns::NONE;
use crate::field::FieldRef;

/// Validates a selector.
pub fn validate(selector: &FieldRef<'_>) {
    let labels = selector.at(fields::MATCH_LABELS);
    for (label, value) in labels.entries() {
        name::report(label, name::check_qualified_name(label), labels.errors());
        name::report(value.str(), name::check_label_value(value.str()), labels.errors());
    }
    for expression in selector.at(fields::MATCH_EXPRESSIONS).items() {
        validate_expression(&expression);
        for value in expression.at(fields::VALUES).items() {
            name::check(&value, name::check_label_value);
        }
    }
}

/// Validates a selector, but accepts invalid label values.
pub fn validate_but_values(selector: &FieldRef<'_>) {
    crate::meta::validate_labels(&selector.at(fields::MATCH_LABELS));
    for expression in selector.at(fields::MATCH_EXPRESSIONS).items() {
        validate_expression(&expression);
    }
}

fn validate_expression(expression: &FieldRef<'_>) {
    let values = expression.at(fields::VALUES);
    match expression.at(fields::OPERATOR).str() {
        "In" | "NotIn" if values.is_empty() => {
            values.required("must be specified when `operator` is 'In' or 'NotIn'")
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => expression
            .at(fields::OPERATOR)
            .invalid("not a valid selector operator"),
    }
    name::check(&expression.at(fields::KEY), name::check_qualified_name);
}

/// Whether a selector matches these labels. An empty one matches everything, an absent one nothing. `None` if the
/// selector is invalid.
pub fn selects(selector: &FieldRef<'_>, labels: &FieldRef<'_>) -> Option<bool> {
    let errors = Errors::default();
    validate(&selector.with_errors(errors.clone()));
    if !errors.is_empty() {
        return None;
    }
    let parsed = parse(selector.value()).ok()?;
    Some(selector.is_set() && matches(&parsed, labels))
}

/// Whether the selector is empty, and so matches everything.
pub fn is_empty(selector: &FieldRef<'_>) -> bool {
    selector.at(fields::MATCH_LABELS).is_empty() && selector.at(fields::MATCH_EXPRESSIONS).is_empty()
}

/// Parses a selector. An absent one matches everything.
pub fn parse(selector: &Tree) -> Result<LabelSelector, String> {
    let labels = selector.get(fields::MATCH_LABELS).and_then(Tree::as_map);
    let labels = labels.into_iter().flat_map(Map::iter);
    let mut requirements: Vec<Requirement> = labels
        .map(|(label, value)| Requirement {
            label: label.into(),
            operator: Operator::In(vec![value.as_str().unwrap_or_default().into()]),
        })
        .collect();
    for expression in selector.items(fields::MATCH_EXPRESSIONS) {
        requirements.push(Requirement {
            label: expression.str_at(&[fields::KEY]).unwrap_or_default().into(),
            operator: operator(expression)?,
        });
    }
    Ok(LabelSelector { requirements })
}

fn operator(expression: &Tree) -> Result<Operator, String> {
    let values = || {
        let values = expression.items(fields::VALUES).iter();
        values.filter_map(Tree::as_str).map(Into::into).collect()
    };
    match expression.str_at(&[fields::OPERATOR]).unwrap_or_default() {
        "In" => Ok(Operator::In(values())),
        "NotIn" => Ok(Operator::NotIn(values())),
        "Exists" => Ok(Operator::Exists),
        "DoesNotExist" => Ok(Operator::DoesNotExist),
        other => Err(format!("{other:?} is not a valid label selector operator")),
    }
}

/// Whether a parsed selector matches these labels.
pub fn matches(selector: &LabelSelector, labels: &FieldRef<'_>) -> bool {
    selector.matches(|label| labels.value().get(label).and_then(Tree::as_str))
}

/// The selector as text.
pub fn print(selector: &FieldRef<'_>) -> String {
    if !selector.is_set() {
        return NONE.to_owned();
    }
    match parse(selector.value()) {
        Ok(parsed) if parsed.is_empty() => NONE.to_owned(),
        Ok(parsed) => parsed.to_string(),
        Err(_) => "<error>".to_owned(),
    }
}

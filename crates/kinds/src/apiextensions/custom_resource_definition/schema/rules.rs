//! `x-kubernetes-validations`: the fields of each rule. Whether its expressions compile is not checked.

use setpoint_schema::fields;

use super::Node;

const REASONS: &[&str] = &[
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

pub(super) fn validate(node: &Node<'_>) {
    for rule in node.children(fields::X_KUBERNETES_VALIDATIONS) {
        validate_texts(&rule);
        validate_message_expression(&rule);
        validate_field_path(node, &rule);
    }
}

fn validate_texts(rule: &Node<'_>) {
    let (expression, message) = (rule.str(fields::RULE).trim(), rule.str(fields::MESSAGE));
    let at = rule.errors.at(fields::MESSAGE);
    if expression.is_empty() {
        rule.errors.at(fields::RULE).required("rule is not specified");
    } else if !message.is_empty() && message.trim().is_empty() {
        at.invalid(message, "must be non-empty if specified");
    } else if has_line_breaks(message.trim()) {
        at.invalid(message, "must not contain line breaks");
    } else if has_line_breaks(expression) && message.is_empty() {
        at.required("message must be specified if rule contains line breaks");
    }
}

fn validate_message_expression(rule: &Node<'_>) {
    let expression = rule.str(fields::MESSAGE_EXPRESSION);
    if !expression.is_empty() && expression.trim().is_empty() {
        let at = rule.errors.at(fields::MESSAGE_EXPRESSION);
        at.required("messageExpression must be non-empty if specified");
    }
    if let Some(reason) = rule.at(fields::REASON) {
        let value = rule.str(fields::REASON);
        if !REASONS.contains(&value) {
            reason.errors.not_supported(value, REASONS);
        }
    }
}

fn validate_field_path(node: &Node<'_>, rule: &Node<'_>) {
    let path = rule.str(fields::FIELD_PATH);
    if path.is_empty() {
        return;
    }
    let at = rule.errors.at(fields::FIELD_PATH);
    if path.trim().is_empty() {
        at.invalid(path, "must be non-empty if specified");
    }
    if has_line_breaks(path) {
        at.invalid(path, "must not contain line breaks");
    }
    if !is_field(node, path) {
        at.invalid(path, "must be a valid path");
    }
}

/// Whether a path such as `.spec['a.b'].c` leads to a field of the schema: to a property, or where there are none to an
/// additional property.
fn is_field(node: &Node<'_>, path: &str) -> bool {
    if path.is_empty() {
        return true;
    }
    let Some((name, rest)) = split_first(path) else {
        return false;
    };
    let properties = node.properties();
    if properties.is_empty() {
        let additional = node.schema(fields::ADDITIONAL_PROPERTIES);
        return additional.is_some_and(|additional| is_field(&additional, rest));
    }
    let property = properties.iter().find(|(own, _)| *own == name);
    property.is_some_and(|(_, property)| is_field(property, rest))
}

/// The first name of a path, written `.name` or `['name']`, and the rest.
fn split_first(path: &str) -> Option<(&str, &str)> {
    if let Some(rest) = path.strip_prefix("['") {
        return rest.split_once("']");
    }
    let rest = path.strip_prefix('.')?;
    Some(rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())))
}

fn has_line_breaks(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

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

/// Whether a path such as `.spec['a.b'].c` leads to a field of the schema: by `.name` or `['name']` to a property, by
/// `['name']` to an additional property.
fn is_field(node: &Node<'_>, path: &str) -> bool {
    if path.is_empty() {
        return true;
    }
    let (name, rest, is_bracketed) = if let Some(rest) = path.strip_prefix("['") {
        let Some((name, rest)) = rest.split_once("']") else {
            return false;
        };
        (name, rest, true)
    } else if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        (&rest[..end], &rest[end..], false)
    } else {
        return false;
    };
    let properties = node.properties();
    let property = properties.iter().find(|(own, _)| *own == name);
    match (property, node.schema(fields::ADDITIONAL_PROPERTIES)) {
        (Some((_, property)), _) => is_field(property, rest),
        (None, Some(additional)) if is_bracketed => is_field(&additional, rest),
        _ => false,
    }
}

fn has_line_breaks(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

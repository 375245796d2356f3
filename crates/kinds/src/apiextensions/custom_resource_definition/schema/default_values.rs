//! Default values in schemas: each must be valid by the schema that declares it.

use setpoint_api::field::{ErrorType, FieldError};
use setpoint_schema::custom::{Schema, SchemaViolation, ViolationKind};
use setpoint_schema::fields;
use setpoint_strategy::custom::field_error;
use setpoint_strategy::display::RawJson;

use super::Node;

/// Validates the defaults of a structural schema. `additionalProperties` have none.
pub(super) fn validate(node: &Node<'_>) {
    if let Some(default) = node.at(fields::DEFAULT) {
        validate_default(node, &default);
    }
    if let Some(items) = node.schema(fields::ITEMS) {
        validate(&items);
    }
    for (_, property) in node.properties() {
        validate(&property);
    }
}

fn validate_default(node: &Node<'_>, default: &Node<'_>) {
    let schema = Schema::compile(node.value);
    if schema.would_prune(default.value) {
        default
            .errors
            .invalid(RawJson::from_tree(default.value), "must not have unknown fields");
        return;
    }
    let mut filled = default.value.clone();
    if let Err(too_large) = schema.apply_defaults(&mut filled) {
        return default.errors.invalid_omitting_value(&too_large.to_string());
    }
    let path = default.errors.path();
    for report in schema.validate_at(&filled, "") {
        let at = report.path.as_deref().unwrap_or_default();
        let at = match at {
            "" => path.clone(),
            at if at.starts_with('[') => format!("{path}{at}"),
            at => format!("{path}.{at}"),
        };
        default.errors.push(default_error(at, &report.kind));
    }
}

fn default_error(path: String, subject: &ViolationKind) -> FieldError {
    let report = SchemaViolation {
        path: Some(path),
        kind: subject.clone(),
    };
    let mut error = field_error(&report);
    if error.error_type == ErrorType::Invalid {
        error.message = error.message.replace(":  in body", ": in body");
    }
    error
}

//! Validation of `selectableFields`.

use std::collections::BTreeSet;

use setpoint_schema::custom::{Schema, Type};
use setpoint_schema::fields;
use setpoint_strategy::FieldRef;
use setpoint_strategy::custom::validation_rules::resolve_field_path;

/// The most selectable fields of a version.
pub(super) const MAX_SELECTABLE_FIELDS: usize = 8;

/// Validates the selectable fields of a version against its schema.
pub(super) fn validate(selectable: &FieldRef<'_>, schema: &Schema, allows_many: bool) {
    let mut unique = BTreeSet::new();
    for field in selectable.items() {
        if let Some(path) = validate_one(&field, schema)
            && !unique.insert(path)
        {
            field.at(fields::JSON_PATH).duplicate();
        }
    }
    if unique.len() > MAX_SELECTABLE_FIELDS && !allows_many {
        selectable.errors().too_many(unique.len(), MAX_SELECTABLE_FIELDS);
    }
}

/// The path of a field, if it leads to one.
fn validate_one(field: &FieldRef<'_>, schema: &Schema) -> Option<String> {
    let path = field.at(fields::JSON_PATH);
    if !path.require() {
        return None;
    }
    match resolve_field_path(path.str(), schema, false) {
        Err(error) => {
            path.invalid(&format!("is an invalid path: {error}"));
            None
        }
        Ok((printed, found)) => {
            if printed.split(['.', '[']).next() == Some(fields::METADATA) {
                path.invalid("must not point to fields in metadata");
            }
            let is_scalar = matches!(
                found.value_type,
                Some(Type::String | Type::Boolean | Type::Integer)
            );
            if !is_scalar {
                path.invalid("must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.");
            }
            Some(printed)
        }
    }
}

//! `metav1.Condition`: the conditions of newer kinds.

use std::collections::BTreeSet;

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, name};

const STATUSES: &[&str] = &["False", "True", "Unknown"];
const MAX_REASON_BYTES: usize = 1024;
const MAX_MESSAGE_BYTES: usize = 32 * 1024;
const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// Validates a list of conditions.
pub fn validate(conditions: &FieldRef<'_>) {
    let mut types = BTreeSet::new();
    for condition in conditions.items() {
        let kind = condition.at(fields::TYPE);
        if !types.insert(kind.str()) {
            condition.errors().duplicate(kind.str());
        }
        validate_one(&condition);
    }
}

fn validate_one(condition: &FieldRef<'_>) {
    let kind = condition.at(fields::TYPE);
    if kind.is_empty() {
        kind.required("is required");
    } else {
        name::check(&kind, name::check_qualified_name);
    }
    condition.at(fields::STATUS).require_one_of(STATUSES);
    if condition.at(fields::OBSERVED_GENERATION).int() < 0 {
        condition
            .at(fields::OBSERVED_GENERATION)
            .invalid("must be greater than or equal to zero");
    }
    condition.at(fields::LAST_TRANSITION_TIME).require();
    let reason = condition.at(fields::REASON);
    if reason.require() {
        if !is_reason(reason.str()) {
            reason.invalid(REASON);
        }
        if reason.str().len() > MAX_REASON_BYTES {
            reason.too_long(MAX_REASON_BYTES);
        }
    }
    if condition.at(fields::MESSAGE).str().len() > MAX_MESSAGE_BYTES {
        condition.at(fields::MESSAGE).too_long(MAX_MESSAGE_BYTES);
    }
}

fn is_reason(text: &str) -> bool {
    let bytes = text.as_bytes();
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(word)
        && bytes.iter().all(|byte| word(byte) || b",:".contains(byte))
}

/// Whether a list has a condition of this type that is `True`.
pub fn is_true(conditions: &FieldRef<'_>, kind: &str) -> bool {
    has(conditions, kind, "True")
}

/// Whether a list has a condition of this type with this status.
pub fn has(conditions: &FieldRef<'_>, kind: &str, status: &str) -> bool {
    conditions.items().any(|condition| {
        condition.at(fields::TYPE).str() == kind && condition.at(fields::STATUS).str() == status
    })
}

//! File paths container_context volumes, which must not leave them.

use setpoint_api::field::Errors;
use setpoint_strategy::FieldRef;

const MODES: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Reports a path that contains `..`.
pub(super) fn check_no_parent_steps(text: &str, errors: &Errors) {
    if has_parent_steps(text) {
        errors.invalid(text, "must not contain '..'");
    }
}

/// Reports a path that is absolute or contains `..`.
pub(crate) fn check_relative_path(text: &str, errors: &Errors) {
    if text.starts_with('/') {
        errors.invalid(text, "must be a relative path");
    }
    check_no_parent_steps(text, errors);
}

/// Reports a path that is absolute, contains `..`, or is reserved for the kubelet.
pub(super) fn check_local_path(path: &FieldRef<'_>) {
    check_relative_path(path.str(), path.errors());
    if path.str().starts_with("..") && !path.str().starts_with("../") {
        path.invalid("must not start with '..'");
    }
}

pub(super) fn has_parent_steps(text: &str) -> bool {
    text.split('/').any(|part| part == "..")
}

/// Reports an invalid file mode.
pub(super) fn check_mode(mode: &FieldRef<'_>) {
    if mode.is_set() && !(0..=0o777).contains(&mode.int()) {
        mode.invalid(MODES);
    }
}

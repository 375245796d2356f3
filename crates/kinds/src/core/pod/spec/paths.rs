//! Paths of files: inside a volume they go down only.

use setpoint_api::field::Errors;

use crate::at::At;

const MODES: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Reports a path that leads up.
pub(super) fn check_no_backsteps(text: &str, errors: &Errors) {
    if has_backsteps(text) {
        errors.invalid(text, "must not contain '..'");
    }
}

/// Reports a path that leads up or starts at the root.
pub(crate) fn check_descending(text: &str, errors: &Errors) {
    if text.starts_with('/') {
        errors.invalid(text, "must be a relative path");
    }
    check_no_backsteps(text, errors);
}

/// Reports a path that leads up, starts at the root, or is kept for the agent.
pub(super) fn check_local(path: &At<'_>) {
    check_descending(path.str(), path.errors());
    if path.str().starts_with("..") && !path.str().starts_with("../") {
        path.invalid("must not start with '..'");
    }
}

pub(super) fn has_backsteps(text: &str) -> bool {
    text.split('/').any(|part| part == "..")
}

/// Reports bits that are no permissions.
pub(super) fn check_mode(mode: &At<'_>) {
    if mode.is_set() && !(0..=0o777).contains(&mode.int()) {
        mode.invalid(MODES);
    }
}

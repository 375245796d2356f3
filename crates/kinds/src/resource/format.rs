//! Name formats of this group, and size limits of lists.

use std::collections::HashSet;

use setpoint_strategy::{FieldRef, name};

const DRIVER_BYTES: usize = 63;
const POOL_BYTES: usize = 253;
const IDENTIFIER_BYTES: usize = 32;
const CASELESS: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'Example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";

/// Reports a driver name that is missing or invalid.
pub(super) fn check_driver(field: &FieldRef<'_>) {
    if !field.require() {
        return;
    }
    if field.str().len() > DRIVER_BYTES {
        field.too_long(DRIVER_BYTES);
    }
    let violations = name::check_dns1123_subdomain(&field.str().to_lowercase());
    name::report(field.str(), violations, field.errors());
}

/// The same as upstream's declarative validation, whose messages differ.
pub(super) fn check_driver_declarative(field: &FieldRef<'_>) {
    if !field.require() {
        return;
    }
    for violation in name::check_dns1123_subdomain(&field.str().to_lowercase()) {
        let length = violation.starts_with("must be no more");
        field.invalid(if length { &violation } else { CASELESS });
    }
    if field.str().chars().count() > DRIVER_BYTES {
        field.too_long(DRIVER_BYTES);
    }
}

/// Reports a pool name that is missing or invalid.
pub(super) fn check_pool(field: &FieldRef<'_>) {
    if !field.require() {
        return;
    }
    if field.str().len() > POOL_BYTES {
        field.too_long(POOL_BYTES);
    }
    for part in field.str().split('/') {
        name::report(part, name::check_dns1123_subdomain(part), field.errors());
    }
}

/// Reports an invalid attribute or capacity name: an identifier with an optional domain.
pub(super) fn check_qualified(text: &str, field: &FieldRef<'_>) {
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [identifier] => check_identifier(identifier, field),
        [domain, identifier] => {
            if domain.is_empty() {
                field.invalid_as("", "the domain must not be empty");
            } else {
                name::report(
                    domain,
                    name::check_dns1123_subdomain(&domain.to_lowercase()),
                    field.errors(),
                );
            }
            if identifier.is_empty() {
                field.invalid_as("", "the name must not be empty");
            } else {
                check_identifier(identifier, field);
            }
        }
        _ => {}
    }
}

/// Reports a name that is invalid or has no domain.
pub(super) fn check_fully_qualified(field: &FieldRef<'_>) {
    check_qualified(field.str(), field);
    if !field.str().contains('/') {
        field.invalid("a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn check_identifier(text: &str, field: &FieldRef<'_>) {
    if text.len() > IDENTIFIER_BYTES {
        field.too_long(IDENTIFIER_BYTES);
    }
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if text.is_empty() || text.as_bytes()[0].is_ascii_digit() || !text.bytes().all(word) {
        field.invalid_as(text, IDENTIFIER);
    }
}

/// Reports a list that is too long. Returns whether its items remain to be validated.
pub(super) fn check_max_items(list: &FieldRef<'_>, max: usize) -> bool {
    if list.len() > max {
        list.too_many(max);
    }
    list.len() <= max
}

/// Reports duplicate strings.
pub(super) fn check_unique(list: &FieldRef<'_>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for item in list.items() {
        if !seen.insert(item.str()) {
            item.duplicate();
        }
    }
}

//! The forms of names in this group, and of lists that have a greatest size.

use crate::at::At;
use crate::shared::name;

const DRIVER_BYTES: usize = 63;
const POOL_BYTES: usize = 253;
const IDENTIFIER_BYTES: usize = 32;
const CASELESS: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'Example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";

/// Reports a driver that is missing or has no proper name.
pub(super) fn driver(place: &At<'_>) {
    if !place.require() {
        return;
    }
    if place.str().len() > DRIVER_BYTES {
        place.too_long(DRIVER_BYTES);
    }
    let complaints = name::subdomain(&place.str().to_lowercase());
    name::report(place.str(), complaints, place.errors());
}

/// The same by the declared rules of the shape, which have other words.
pub(super) fn declared_driver(place: &At<'_>) {
    if !place.require() {
        return;
    }
    for complaint in name::subdomain(&place.str().to_lowercase()) {
        let length = complaint.starts_with("must be no more");
        place.invalid(if length { &complaint } else { CASELESS });
    }
    if place.str().chars().count() > DRIVER_BYTES {
        place.too_long(DRIVER_BYTES);
    }
}

/// Reports a pool that is missing or has no proper name.
pub(super) fn pool(place: &At<'_>) {
    if !place.require() {
        return;
    }
    if place.str().len() > POOL_BYTES {
        place.too_long(POOL_BYTES);
    }
    for part in place.str().split('/') {
        name::report(part, name::subdomain(part), place.errors());
    }
}

/// Reports a name of an attribute or a capacity that is none: an identifier, perhaps behind a domain.
pub(super) fn qualified(text: &str, place: &At<'_>) {
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [own] => identifier(own, place),
        [domain, own] => {
            if domain.is_empty() {
                place.invalid_as("", "the domain must not be empty");
            } else {
                name::report(domain, name::subdomain(&domain.to_lowercase()), place.errors());
            }
            if own.is_empty() {
                place.invalid_as("", "the name must not be empty");
            } else {
                identifier(own, place);
            }
        }
        _ => {}
    }
}

/// Reports a name that lacks its domain, or is none at all.
pub(super) fn fully_qualified(place: &At<'_>) {
    qualified(place.str(), place);
    if !place.str().contains('/') {
        place.invalid("a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn identifier(text: &str, place: &At<'_>) {
    if text.len() > IDENTIFIER_BYTES {
        place.too_long(IDENTIFIER_BYTES);
    }
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if text.is_empty() || text.as_bytes()[0].is_ascii_digit() || !text.bytes().all(word) {
        place.invalid_as(text, IDENTIFIER);
    }
}

/// Reports a list that is too long. Whether its items are left to be looked at.
pub(super) fn at_most(list: &At<'_>, most: usize) -> bool {
    if list.len() > most {
        list.too_many(most);
    }
    list.len() <= most
}

/// Reports texts that come twice.
pub(super) fn unique(list: &At<'_>) {
    let mut seen: Vec<&str> = Vec::new();
    for item in list.items() {
        if seen.contains(&item.str()) {
            item.duplicate();
        }
        seen.push(item.str());
    }
}

//! One device of a slice.

use std::collections::HashSet;

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, name};

use crate::resource::{format, taint};

const MAX_PROPERTIES: usize = 32;
const MAX_TAINTS: usize = 16;
const MAX_COUNTERS: usize = 2;
const MAX_CONDITIONS: usize = 4;
const VALUE_BYTES: usize = 64;
/// The value fields of an attribute, in the order of error messages.
const VALUES: &[&str] = &[
    fields::INT,
    fields::BOOL,
    fields::STRING,
    fields::VERSION,
    fields::INTS,
    fields::BOOLS,
    fields::STRINGS,
    fields::VERSIONS,
];
const NODE_SELECTION_FIELDS: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";

/// Whether a device counts against the lower limit of large devices.
pub(super) fn is_large(device: &FieldRef<'_>) -> bool {
    let lists =
        |(_, attribute): (&str, FieldRef<'_>)| VALUES[4..].iter().any(|list| attribute.at(list).is_set());
    !device.at(fields::TAINTS).is_empty()
        || !device.at(fields::CONSUMES_COUNTERS).is_empty()
        || device.at(fields::ATTRIBUTES).entries().any(lists)
}

/// Validates a device. `each` is whether node selection is per device.
pub(super) fn validate(device: &FieldRef<'_>, each: bool) {
    name::check(&device.at(fields::NAME), name::check_dns1123_label);
    let (attributes, capacity) = (device.at(fields::ATTRIBUTES), device.at(fields::CAPACITY));
    let properties = attributes.len() + capacity.len();
    if properties > MAX_PROPERTIES {
        let why = format!("the total number of attributes and capacities must not exceed {MAX_PROPERTIES}");
        device.invalid_as(properties, &why);
    }
    for (key, attribute) in attributes.entries() {
        format::check_qualified(key, &attributes);
        validate_attribute(&attribute);
    }
    for (key, amount) in capacity.entries() {
        format::check_qualified(key, &capacity);
        if amount.at(fields::REQUEST_POLICY).is_set() && !device.at(fields::ALLOW_MULTIPLE_ALLOCATIONS).bool()
        {
            amount
                .at(fields::REQUEST_POLICY)
                .forbidden("allowMultipleAllocations must be true");
        }
    }
    if format::check_max_items(&device.at(fields::TAINTS), MAX_TAINTS) {
        device
            .at(fields::TAINTS)
            .items()
            .for_each(|taint| taint::validate(&taint));
    }
    validate_nodes(device, each);
    validate_conditions(device);
}

fn validate_attribute(attribute: &FieldRef<'_>) {
    if attribute.at(fields::STRING).str().len() > VALUE_BYTES {
        attribute.at(fields::STRING).too_long(VALUE_BYTES);
    }
    if attribute.at(fields::VERSION).is_set() {
        validate_version(&attribute.at(fields::VERSION));
    }
    for version in attribute.at(fields::VERSIONS).items() {
        validate_version(&version);
    }
}

fn validate_version(version: &FieldRef<'_>) {
    if !is_version(version.str()) {
        version.invalid("must be a string compatible with semver.org spec 2.0.0");
    }
    if version.str().len() > VALUE_BYTES {
        version.too_long(VALUE_BYTES);
    }
}

/// Whether a text is a version by the rules of <https://semver.org/spec/v2.0.0.html>.
fn is_version(text: &str) -> bool {
    let (text, build) = match text.split_once('+') {
        Some((text, build)) => (text, Some(build)),
        None => (text, None),
    };
    let (core, release) = match text.split_once('-') {
        Some((core, release)) => (core, Some(release)),
        None => (text, None),
    };
    let word = |word: &str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let number = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_digit())
            && (word == "0" || !word.starts_with('0'))
    };
    let before = |part: &str| number(part) || (word(part) && part.bytes().any(|byte| !byte.is_ascii_digit()));
    core.split('.').count() == 3
        && core.split('.').all(number)
        && release.is_none_or(|release| release.split('.').all(before))
        && build.is_none_or(|build| build.split('.').all(word))
}

fn validate_nodes(device: &FieldRef<'_>, each: bool) {
    let (node, selector, all) = (
        device.at(fields::NODE_NAME),
        device.at(fields::NODE_SELECTOR),
        device.at(fields::ALL_NODES),
    );
    if !each {
        if node.is_set() || selector.is_set() || all.is_set() {
            device.invalid_as((), "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec");
        }
        return;
    }
    let mut ways = Vec::new();
    if node.is_set() && node.is_empty() {
        node.invalid("must not be empty");
    } else if node.is_set() {
        ways.push("`nodeName`");
        name::check(&node, name::check_dns1123_subdomain);
    }
    if selector.is_set() {
        ways.push("`nodeSelector`");
    }
    match all.find_bool() {
        Some(true) => ways.push("`allNodes`"),
        Some(false) => all.invalid("must be either unset or set to true"),
        None => {}
    }
    match ways.len() {
        0 => device.required(NODE_SELECTION_FIELDS),
        1 => {}
        _ => device.invalid_as(format!("{{{}}}", ways.join(", ")), NODE_SELECTION_FIELDS),
    }
}

fn validate_conditions(device: &FieldRef<'_>) {
    let (binding, failure) = (
        device.at(fields::BINDING_CONDITIONS),
        device.at(fields::BINDING_FAILURE_CONDITIONS),
    );
    for list in [&binding, &failure] {
        if list.len() <= MAX_CONDITIONS {
            list.items()
                .for_each(|condition| name::check(&condition, name::check_qualified_name));
        }
    }
    format::check_unique(&binding);
    format::check_unique(&failure);
    let bound: HashSet<&str> = binding.strs().collect();
    for condition in failure.items() {
        if bound.contains(condition.str()) {
            condition.invalid("bindingFailureConditions must not overlap with bindingConditions");
        }
    }
    if binding.is_empty() && !failure.is_empty() {
        binding.invalid("bindingConditions are required to use bindingFailureConditions");
    }
    if failure.is_empty() && !binding.is_empty() {
        failure.invalid("bindingFailureConditions are required to use bindingConditions");
    }
}

/// Reports what upstream's declarative validation reports, which runs last.
pub(super) fn validate_declarative(device: &FieldRef<'_>) {
    for (_, attribute) in device.at(fields::ATTRIBUTES).entries() {
        validate_declarative_attribute(&attribute);
    }
    let counters = device.at(fields::CONSUMES_COUNTERS);
    if format::check_max_items(&counters, MAX_COUNTERS) {
        for consumed in counters.items() {
            validate_declarative_counters(&consumed, fields::COUNTER_SET);
        }
    }
    device
        .at(fields::TAINTS)
        .items()
        .for_each(|taint| taint::validate_declarative(&taint));
    format::check_max_items(&device.at(fields::BINDING_CONDITIONS), MAX_CONDITIONS);
    format::check_max_items(&device.at(fields::BINDING_FAILURE_CONDITIONS), MAX_CONDITIONS);
}

fn validate_declarative_attribute(attribute: &FieldRef<'_>) {
    let set: Vec<String> = VALUES
        .iter()
        .filter(|value| attribute.at(value).is_set())
        .map(|value| format!("`{value}`"))
        .collect();
    let all: Vec<String> = VALUES.iter().map(|value| format!("`{value}`")).collect();
    match set.len() {
        0 => attribute.invalid_as("", &format!("must specify one of: {}", all.join(", "))),
        1 => {}
        _ => attribute.invalid_as(
            format!("{{{}}}", set.join(", ")),
            &format!("must specify exactly one of: {}", all.join(", ")),
        ),
    }
    for text in attribute.at(fields::STRINGS).items() {
        if text.str().len() > VALUE_BYTES {
            text.too_long(VALUE_BYTES);
        }
    }
}

/// A counter set: its name, and counters by name.
pub(super) fn validate_declarative_counters(set: &FieldRef<'_>, named: &str) {
    if set.at(named).require() {
        name::check_declarative(&set.at(named), name::check_dns1123_label);
    }
    let counters = set.at(fields::COUNTERS);
    counters.require();
    for (key, _) in counters.entries() {
        name::report(key, name::check_dns1123_label(key), counters.errors());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: bool) {
        assert_eq!(is_version(text), expected, "{text}");
    }

    #[test]
    fn semantic_versions_have_three_numbers_and_optional_suffixes() {
        check("1.2.3", true);
        check("1.2.3-rc.1+build.5", true);
        check("1.2.3-0a", true);
        check("1.2", false);
        check("01.2.3", false);
        check("1.2.3-01", false);
        check("1.2.3-", false);
        check("1.2.3+", false);
        check("v1.2.3", false);
    }
}

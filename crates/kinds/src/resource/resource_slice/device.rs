//! One device of a slice.

use crate::at::At;
use crate::resource::{form, taint};
use crate::shared::name;

const MOST_PROPERTIES: usize = 32;
const MOST_TAINTS: usize = 16;
const MOST_COUNTERS: usize = 2;
const MOST_CONDITIONS: usize = 4;
const VALUE_BYTES: usize = 64;
/// In the order messages list them.
const VALUES: &[&str] = &[
    "int", "bool", "string", "version", "ints", "bools", "strings", "versions",
];
const WHERE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";

/// Whether a device takes more room than most.
pub(super) fn is_big(device: &At<'_>) -> bool {
    let lists = |(_, attribute): (&str, At<'_>)| VALUES[4..].iter().any(|list| attribute.at(list).is_set());
    !device.at("taints").is_empty()
        || !device.at("consumesCounters").is_empty()
        || device.at("attributes").entries().any(lists)
}

/// Reports what is wrong with a device. `each` says whether devices say themselves where they are.
pub(super) fn validate(device: &At<'_>, each: bool) {
    name::check(&device.at("name"), name::label);
    let (attributes, capacity) = (device.at("attributes"), device.at("capacity"));
    let properties = attributes.len() + capacity.len();
    if properties > MOST_PROPERTIES {
        let why = format!("the total number of attributes and capacities must not exceed {MOST_PROPERTIES}");
        device.invalid_as(properties, &why);
    }
    for (key, attribute) in attributes.entries() {
        form::qualified(key, &attributes);
        validate_attribute(&attribute);
    }
    for (key, amount) in capacity.entries() {
        form::qualified(key, &capacity);
        if amount.at("requestPolicy").is_set() && !device.at("allowMultipleAllocations").bool() {
            amount
                .at("requestPolicy")
                .forbidden("allowMultipleAllocations must be true");
        }
    }
    if form::at_most(&device.at("taints"), MOST_TAINTS) {
        device
            .at("taints")
            .items()
            .for_each(|taint| taint::validate(&taint));
    }
    validate_nodes(device, each);
    validate_conditions(device);
}

fn validate_attribute(attribute: &At<'_>) {
    if attribute.at("string").str().len() > VALUE_BYTES {
        attribute.at("string").too_long(VALUE_BYTES);
    }
    if attribute.at("version").is_set() {
        validate_version(&attribute.at("version"));
    }
    for version in attribute.at("versions").items() {
        validate_version(&version);
    }
}

fn validate_version(version: &At<'_>) {
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

fn validate_nodes(device: &At<'_>, each: bool) {
    let (node, selector, all) = (
        device.at("nodeName"),
        device.at("nodeSelector"),
        device.at("allNodes"),
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
        name::check(&node, name::subdomain);
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
        0 => device.required(WHERE),
        1 => {}
        _ => device.invalid_as(format!("{{{}}}", ways.join(", ")), WHERE),
    }
}

fn validate_conditions(device: &At<'_>) {
    let (binding, failure) = (
        device.at("bindingConditions"),
        device.at("bindingFailureConditions"),
    );
    for list in [&binding, &failure] {
        if list.len() <= MOST_CONDITIONS {
            list.items()
                .for_each(|condition| name::check(&condition, name::qualified));
        }
    }
    form::unique(&binding);
    form::unique(&failure);
    for condition in failure.items() {
        if binding.strs().any(|other| other == condition.str()) {
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

/// Reports what the declared rules of the shape find, which come after all others.
pub(super) fn declared(device: &At<'_>) {
    for (_, attribute) in device.at("attributes").entries() {
        declared_attribute(&attribute);
    }
    let counters = device.at("consumesCounters");
    if form::at_most(&counters, MOST_COUNTERS) {
        for consumed in counters.items() {
            declared_counters(&consumed, "counterSet");
        }
    }
    device
        .at("taints")
        .items()
        .for_each(|taint| taint::declared(&taint));
    form::at_most(&device.at("bindingConditions"), MOST_CONDITIONS);
    form::at_most(&device.at("bindingFailureConditions"), MOST_CONDITIONS);
}

fn declared_attribute(attribute: &At<'_>) {
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
    for text in attribute.at("strings").items() {
        if text.str().len() > VALUE_BYTES {
            text.too_long(VALUE_BYTES);
        }
    }
}

/// Counters by name, in a set that has a name.
pub(super) fn declared_counters(set: &At<'_>, named: &str) {
    if set.at(named).require() {
        name::declared(&set.at(named), name::label);
    }
    let counters = set.at("counters");
    counters.require();
    for (key, _) in counters.entries() {
        name::report(key, name::label(key), counters.errors());
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
    fn versions_have_three_numbers_and_perhaps_words() {
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

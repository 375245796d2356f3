//! Validation of a ResourceClaim's spec: device requests, and constraints among them.

use std::collections::HashSet;

use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, name};

use super::selector::{self, Expressions};
use super::{configuration, format, taint};

const MAX: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const MODES: &[&str] = &["All", "ExactCount"];
const REFERENCE: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// Defaults the number of devices of each request.
pub(super) fn set_defaults(spec: &mut Tree) {
    let Some(devices) = spec.find_mut(fields::DEVICES) else {
        return;
    };
    for request in devices.items_mut(fields::REQUESTS) {
        if let Some(exactly) = request.find_mut(fields::EXACTLY) {
            default_count(exactly);
        }
        request.items_mut(fields::FIRST_AVAILABLE).for_each(default_count);
    }
}

fn default_count(request: &mut Tree) {
    request.set_default(fields::ALLOCATION_MODE, "ExactCount");
    if request.str_at(&[fields::ALLOCATION_MODE]) == Some("ExactCount") {
        request.set_default(fields::COUNT, 1);
    }
}

/// Validates a claim's spec.
pub(super) fn validate(spec: &FieldRef<'_>, expressions: Expressions) {
    let devices = spec.at(fields::DEVICES);
    let (requests, constraints) = (devices.at(fields::REQUESTS), devices.at(fields::CONSTRAINTS));
    let named = RequestNames::of(&requests);
    if requests.len() <= MAX {
        requests
            .items()
            .for_each(|request| validate_request(&request, expressions));
    }
    if constraints.len() <= MAX {
        for constraint in constraints.items() {
            validate_constraint(&constraint, &named);
        }
    }
    if devices.at(fields::CONFIG).len() <= MAX {
        for config in devices.at(fields::CONFIG).items() {
            named.validate_references(&config.at(fields::REQUESTS));
            configuration::validate(&config);
        }
    }
    validate_declarative(&devices);
}

fn validate_request(request: &FieldRef<'_>, expressions: Expressions) {
    name::check(&request.at(fields::NAME), name::check_dns1123_label);
    let (exactly, alternatives) = (request.at(fields::EXACTLY), request.at(fields::FIRST_AVAILABLE));
    match (exactly.is_set(), !alternatives.is_empty()) {
        (false, false) => {
            request.required("exactly one of `exactly` or `firstAvailable` is required");
        }
        (true, true) => request.invalid_as(
            (),
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        ),
        (true, false) => {
            if exactly.at(fields::DEVICE_CLASS_NAME).require() {
                name::check_declarative(
                    &exactly.at(fields::DEVICE_CLASS_NAME),
                    name::check_dns1123_subdomain,
                );
            }
            validate_subrequest(&exactly, expressions);
        }
        (false, true) if alternatives.len() <= MAX_ALTERNATIVES => {
            for alternative in alternatives.items() {
                name::check(&alternative.at(fields::NAME), name::check_dns1123_label);
                validate_subrequest(&alternative, expressions);
            }
        }
        (false, true) => {}
    }
}

/// Validates the fields that a request and its alternatives share.
fn validate_subrequest(wish: &FieldRef<'_>, expressions: Expressions) {
    selector::validate(&wish.at(fields::SELECTORS), expressions);
    let count = wish.at(fields::COUNT);
    match wish.at(fields::ALLOCATION_MODE).str() {
        "All" if count.int() != 0 => count.invalid("must not be specified when allocationMode is 'All'"),
        "ExactCount" if count.int() <= 0 => count.invalid("must be greater than zero"),
        _ => {}
    }
    taint::validate_tolerations(&wish.at(fields::TOLERATIONS));
}

fn validate_constraint(constraint: &FieldRef<'_>, named: &RequestNames<'_>) {
    named.validate_references(&constraint.at(fields::REQUESTS));
    if !constraint.at(fields::MATCH_ATTRIBUTE).is_set() && !constraint.at(fields::DISTINCT_ATTRIBUTE).is_set()
    {
        constraint.required(
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
        );
    }
}

/// Reports what upstream's declarative validation reports, which runs last.
fn validate_declarative(devices: &FieldRef<'_>) {
    let requests = devices.at(fields::REQUESTS);
    if format::check_max_items(&requests, MAX) {
        requests
            .items()
            .for_each(|request| validate_declarative_request(&request));
        unique_names(&requests);
    }
    let constraints = devices.at(fields::CONSTRAINTS);
    if format::check_max_items(&constraints, MAX) {
        for constraint in constraints.items() {
            validate_declarative_references(&constraint.at(fields::REQUESTS));
            for field in [fields::MATCH_ATTRIBUTE, fields::DISTINCT_ATTRIBUTE] {
                if constraint.at(field).is_set() {
                    format::check_fully_qualified(&constraint.at(field));
                }
            }
        }
    }
    if format::check_max_items(&devices.at(fields::CONFIG), MAX) {
        for config in devices.at(fields::CONFIG).items() {
            validate_declarative_references(&config.at(fields::REQUESTS));
            configuration::validate_declarative(&config);
        }
    }
}

fn validate_declarative_request(request: &FieldRef<'_>) {
    if request.at(fields::EXACTLY).is_set() {
        validate_declarative_subrequest(&request.at(fields::EXACTLY));
    }
    let alternatives = request.at(fields::FIRST_AVAILABLE);
    if format::check_max_items(&alternatives, MAX_ALTERNATIVES) {
        for alternative in alternatives.items() {
            if alternative.at(fields::DEVICE_CLASS_NAME).require() {
                name::check_declarative(
                    &alternative.at(fields::DEVICE_CLASS_NAME),
                    name::check_dns1123_subdomain,
                );
            }
            validate_declarative_subrequest(&alternative);
        }
        unique_names(&alternatives);
    }
}

fn validate_declarative_subrequest(wish: &FieldRef<'_>) {
    configuration::validate_declarative_selectors(&wish.at(fields::SELECTORS));
    wish.at(fields::ALLOCATION_MODE).one_of(MODES);
    taint::validate_declarative_tolerations(&wish.at(fields::TOLERATIONS));
}

fn validate_declarative_references(references: &FieldRef<'_>) {
    if format::check_max_items(references, MAX) {
        format::check_unique(references);
    }
}

fn unique_names(list: &FieldRef<'_>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for item in list.items() {
        let name = item.at(fields::NAME).str();
        if !seen.insert(name) {
            item.errors().duplicate(name);
        }
    }
}

/// The request names of a claim, each with the names of its alternatives.
#[derive(Debug)]
struct RequestNames<'a>(Vec<(&'a str, Vec<&'a str>)>);

impl<'a> RequestNames<'a> {
    fn of(requests: &FieldRef<'a>) -> Self {
        let alternatives = |request: &FieldRef<'a>| {
            let alternatives = request.at(fields::FIRST_AVAILABLE);
            alternatives
                .items()
                .map(|alternative| alternative.at(fields::NAME).str())
                .collect()
        };
        let requests = requests.items();
        Self(
            requests
                .map(|request| (request.at(fields::NAME).str(), alternatives(&request)))
                .collect(),
        )
    }

    fn has(&self, reference: &str) -> bool {
        let (name, sub) = match reference.split_once('/') {
            Some((name, sub)) => (name, Some(sub)),
            None => (reference, None),
        };
        // Of two requests with the same name the last one counts.
        let found = self.0.iter().rfind(|(request, _)| *request == name);
        found.is_some_and(|(_, alternatives)| sub.is_none_or(|sub| alternatives.contains(&sub)))
    }

    fn validate_references(&self, references: &FieldRef<'_>) {
        if references.len() > MAX {
            return;
        }
        for reference in references.items() {
            let parts: Vec<&str> = reference.str().split('/').collect();
            if parts.len() <= 2 {
                for part in parts {
                    name::report(part, name::check_dns1123_label(part), reference.errors());
                }
            }
            if !self.has(reference.str()) {
                reference.invalid(REFERENCE);
            }
        }
    }
}

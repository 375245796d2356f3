//! Validation of a ResourceClaim's spec: device requests, and constraints among them.

use setpoint_schema::Tree;

use super::{configuration, format, taint};
use crate::field::FieldRef;
use crate::shared::name;

const MAX: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const MODES: &[&str] = &["All", "ExactCount"];
const REFERENCE: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// Defaults the number of devices of each request.
pub(super) fn set_defaults(spec: &mut Tree) {
    let Some(devices) = spec.find_mut("devices") else {
        return;
    };
    for request in devices.items_mut("requests") {
        if let Some(exactly) = request.find_mut("exactly") {
            default_count(exactly);
        }
        request.items_mut("firstAvailable").for_each(default_count);
    }
}

fn default_count(request: &mut Tree) {
    request.set_default("allocationMode", "ExactCount");
    if request.str_at(&["allocationMode"]) == Some("ExactCount") {
        request.set_default("count", 1);
    }
}

/// Validates a claim's spec.
pub(super) fn validate(spec: &FieldRef<'_>) {
    let devices = spec.at("devices");
    let (requests, constraints) = (devices.at("requests"), devices.at("constraints"));
    let named = RequestNames::of(&requests);
    if requests.len() <= MAX {
        requests.items().for_each(|request| validate_request(&request));
    }
    if constraints.len() <= MAX {
        for constraint in constraints.items() {
            validate_constraint(&constraint, &named);
        }
    }
    if devices.at("config").len() <= MAX {
        for config in devices.at("config").items() {
            named.validate_references(&config.at("requests"));
            configuration::validate(&config);
        }
    }
    validate_declarative(&devices);
}

fn validate_request(request: &FieldRef<'_>) {
    name::check(&request.at("name"), name::check_dns1123_label);
    let (exactly, alternatives) = (request.at("exactly"), request.at("firstAvailable"));
    match (exactly.is_set(), !alternatives.is_empty()) {
        (false, false) => {
            request.required("exactly one of `exactly` or `firstAvailable` is required");
        }
        (true, true) => request.invalid_as(
            (),
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        ),
        (true, false) => {
            if exactly.at("deviceClassName").require() {
                name::check_declarative(&exactly.at("deviceClassName"), name::check_dns1123_subdomain);
            }
            validate_subrequest(&exactly);
        }
        (false, true) if alternatives.len() <= MAX_ALTERNATIVES => {
            for alternative in alternatives.items() {
                name::check(&alternative.at("name"), name::check_dns1123_label);
                validate_subrequest(&alternative);
            }
        }
        (false, true) => {}
    }
}

/// Validates the fields that a request and its alternatives share.
fn validate_subrequest(wish: &FieldRef<'_>) {
    configuration::validate_selectors(&wish.at("selectors"));
    let count = wish.at("count");
    match wish.at("allocationMode").str() {
        "All" if count.int() != 0 => count.invalid("must not be specified when allocationMode is 'All'"),
        "ExactCount" if count.int() <= 0 => count.invalid("must be greater than zero"),
        _ => {}
    }
    taint::validate_tolerations(&wish.at("tolerations"));
}

fn validate_constraint(constraint: &FieldRef<'_>, named: &RequestNames<'_>) {
    named.validate_references(&constraint.at("requests"));
    if !constraint.at("matchAttribute").is_set() && !constraint.at("distinctAttribute").is_set() {
        constraint.required(
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
        );
    }
}

/// Reports what upstream's declarative validation reports, which runs last.
fn validate_declarative(devices: &FieldRef<'_>) {
    let requests = devices.at("requests");
    if format::check_max_items(&requests, MAX) {
        requests
            .items()
            .for_each(|request| validate_declarative_request(&request));
        unique_names(&requests);
    }
    let constraints = devices.at("constraints");
    if format::check_max_items(&constraints, MAX) {
        for constraint in constraints.items() {
            validate_declarative_references(&constraint.at("requests"));
            for field in ["matchAttribute", "distinctAttribute"] {
                if constraint.at(field).is_set() {
                    format::check_fully_qualified(&constraint.at(field));
                }
            }
        }
    }
    if format::check_max_items(&devices.at("config"), MAX) {
        for config in devices.at("config").items() {
            validate_declarative_references(&config.at("requests"));
            configuration::validate_declarative(&config);
        }
    }
}

fn validate_declarative_request(request: &FieldRef<'_>) {
    if request.at("exactly").is_set() {
        validate_declarative_subrequest(&request.at("exactly"));
    }
    let alternatives = request.at("firstAvailable");
    if format::check_max_items(&alternatives, MAX_ALTERNATIVES) {
        for alternative in alternatives.items() {
            if alternative.at("deviceClassName").require() {
                name::check_declarative(&alternative.at("deviceClassName"), name::check_dns1123_subdomain);
            }
            validate_declarative_subrequest(&alternative);
        }
        unique_names(&alternatives);
    }
}

fn validate_declarative_subrequest(wish: &FieldRef<'_>) {
    configuration::validate_declarative_selectors(&wish.at("selectors"));
    wish.at("allocationMode").one_of(MODES);
    taint::validate_declarative_tolerations(&wish.at("tolerations"));
}

fn validate_declarative_references(references: &FieldRef<'_>) {
    if format::check_max_items(references, MAX) {
        format::check_unique(references);
    }
}

fn unique_names(list: &FieldRef<'_>) {
    let mut seen: Vec<&str> = Vec::new();
    for item in list.items() {
        let name = item.at("name").str();
        if seen.contains(&name) {
            item.errors().duplicate(name);
        }
        seen.push(name);
    }
}

/// The request names of a claim, each with the names of its alternatives.
#[derive(Debug)]
struct RequestNames<'a>(Vec<(&'a str, Vec<&'a str>)>);

impl<'a> RequestNames<'a> {
    fn of(requests: &FieldRef<'a>) -> Self {
        let alternatives = |request: &FieldRef<'a>| {
            let alternatives = request.at("firstAvailable");
            alternatives
                .items()
                .map(|alternative| alternative.at("name").str())
                .collect()
        };
        let requests = requests.items();
        Self(
            requests
                .map(|request| (request.at("name").str(), alternatives(&request)))
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

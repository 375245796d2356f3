//! What a claim asks for: devices, by requests, with constraints among them.

use setpoint_schema::Tree;

use super::{configuration, form, taint};
use crate::at::At;
use crate::shared::name;

const MOST: usize = 32;
const MOST_ALTERNATIVES: usize = 8;
const MODES: &[&str] = &["All", "ExactCount"];
const REFERENCE: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// Fills in how many devices each request is for.
pub(super) fn fill(spec: &mut Tree) {
    let Some(devices) = spec.find_mut("devices") else {
        return;
    };
    for request in devices.items_mut("requests") {
        if let Some(exactly) = request.find_mut("exactly") {
            fill_count(exactly);
        }
        request.items_mut("firstAvailable").for_each(fill_count);
    }
}

fn fill_count(request: &mut Tree) {
    request.fill("allocationMode", "ExactCount");
    if request.str_at(&["allocationMode"]) == Some("ExactCount") {
        request.fill("count", 1);
    }
}

/// Reports what is wrong with what a claim asks for.
pub(super) fn validate(spec: &At<'_>) {
    let devices = spec.at("devices");
    let (requests, constraints) = (devices.at("requests"), devices.at("constraints"));
    let named = Named::of(&requests);
    if requests.len() <= MOST {
        requests.items().for_each(|request| validate_request(&request));
    }
    if constraints.len() <= MOST {
        for constraint in constraints.items() {
            validate_constraint(&constraint, &named);
        }
    }
    if devices.at("config").len() <= MOST {
        for config in devices.at("config").items() {
            named.validate_references(&config.at("requests"));
            configuration::validate(&config);
        }
    }
    declared(&devices);
}

fn validate_request(request: &At<'_>) {
    name::check(&request.at("name"), name::label);
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
                name::declared(&exactly.at("deviceClassName"), name::subdomain);
            }
            validate_wish(&exactly);
        }
        (false, true) if alternatives.len() <= MOST_ALTERNATIVES => {
            for alternative in alternatives.items() {
                name::check(&alternative.at("name"), name::label);
                validate_wish(&alternative);
            }
        }
        (false, true) => {}
    }
}

/// What a request and its alternatives have in common.
fn validate_wish(wish: &At<'_>) {
    configuration::validate_selectors(&wish.at("selectors"));
    let count = wish.at("count");
    match wish.at("allocationMode").str() {
        "All" if count.int() != 0 => count.invalid("must not be specified when allocationMode is 'All'"),
        "ExactCount" if count.int() <= 0 => count.invalid("must be greater than zero"),
        _ => {}
    }
    taint::validate_tolerations(&wish.at("tolerations"));
}

fn validate_constraint(constraint: &At<'_>, named: &Named<'_>) {
    named.validate_references(&constraint.at("requests"));
    if !constraint.at("matchAttribute").is_set() && !constraint.at("distinctAttribute").is_set() {
        constraint.required(
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
        );
    }
}

/// Reports what the declared rules of the shape find, which come after all others.
fn declared(devices: &At<'_>) {
    let requests = devices.at("requests");
    if form::at_most(&requests, MOST) {
        requests.items().for_each(|request| declared_request(&request));
        unique_names(&requests);
    }
    let constraints = devices.at("constraints");
    if form::at_most(&constraints, MOST) {
        for constraint in constraints.items() {
            declared_references(&constraint.at("requests"));
            for field in ["matchAttribute", "distinctAttribute"] {
                if constraint.at(field).is_set() {
                    form::fully_qualified(&constraint.at(field));
                }
            }
        }
    }
    if form::at_most(&devices.at("config"), MOST) {
        for config in devices.at("config").items() {
            declared_references(&config.at("requests"));
            configuration::declared(&config);
        }
    }
}

fn declared_request(request: &At<'_>) {
    if request.at("exactly").is_set() {
        declared_wish(&request.at("exactly"));
    }
    let alternatives = request.at("firstAvailable");
    if form::at_most(&alternatives, MOST_ALTERNATIVES) {
        for alternative in alternatives.items() {
            if alternative.at("deviceClassName").require() {
                name::declared(&alternative.at("deviceClassName"), name::subdomain);
            }
            declared_wish(&alternative);
        }
        unique_names(&alternatives);
    }
}

fn declared_wish(wish: &At<'_>) {
    configuration::declared_selectors(&wish.at("selectors"));
    wish.at("allocationMode").one_of(MODES);
    taint::declared_tolerations(&wish.at("tolerations"));
}

fn declared_references(references: &At<'_>) {
    if form::at_most(references, MOST) {
        form::unique(references);
    }
}

fn unique_names(list: &At<'_>) {
    let mut seen: Vec<&str> = Vec::new();
    for item in list.items() {
        let own = item.at("name").str();
        if seen.contains(&own) {
            item.errors().duplicate(own);
        }
        seen.push(own);
    }
}

/// The requests of a claim by name, each with the names of its alternatives.
#[derive(Debug)]
struct Named<'a>(Vec<(&'a str, Vec<&'a str>)>);

impl<'a> Named<'a> {
    fn of(requests: &At<'a>) -> Self {
        let alternatives = |request: &At<'a>| {
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
        let (own, sub) = match reference.split_once('/') {
            Some((own, sub)) => (own, Some(sub)),
            None => (reference, None),
        };
        // Of two requests with one name the later counts.
        let found = self.0.iter().rfind(|(request, _)| *request == own);
        found.is_some_and(|(_, alternatives)| sub.is_none_or(|sub| alternatives.contains(&sub)))
    }

    fn validate_references(&self, references: &At<'_>) {
        if references.len() > MOST {
            return;
        }
        for reference in references.items() {
            let parts: Vec<&str> = reference.str().split('/').collect();
            if parts.len() <= 2 {
                for part in parts {
                    name::report(part, name::label(part), reference.errors());
                }
            }
            if !self.has(reference.str()) {
                reference.invalid(REFERENCE);
            }
        }
    }
}

//! The rules that all containers share.

use std::collections::BTreeSet;

use setpoint_api::field::Errors;

use crate::at::At;
use crate::shared::name;
use crate::shared::resources::{self, Whose};

use super::{Inside, env, mounts, security};

pub(super) const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MESSAGE_POLICIES: &[&str] = &["File", "FallbackToLogsOnError"];
const PORTS: &str = "must be between 1 and 65535, inclusive";
const RESTART_POLICIES: &[&str] = &["Always", "Never", "OnFailure"];
const RESTART_ACTIONS: &[&str] = &["Restart", "RestartAllContainers"];
const NO_POLICY: &str = "must specify restartPolicy when restart rules are used";
const RESTARTS: usize = 20;
const EXIT_CODES: usize = 255;

/// Reports what is wrong with a container of any sort.
pub(super) fn validate(container: &At<'_>, inside: &Inside<'_>) {
    let own = container.at("name");
    if own.require() {
        name::check(&own, name::label);
    }
    container.at("image").require();
    container
        .at("terminationMessagePolicy")
        .require_one_of(MESSAGE_POLICIES);
    validate_ports(&container.at("ports"));
    env::validate(&container.at("env"));
    env::validate_from(&container.at("envFrom"));
    mounts::validate(container, inside);
    container.at("imagePullPolicy").require_one_of(PULL_POLICIES);
    resources::validate(&container.at("resources"), &inside.resources(Whose::Container));
    validate_resize(&container.at("resizePolicy"), inside.spec);
    security::validate(&container.at("securityContext"), inside);
}

/// Reports an image with blanks around it, which a template may have.
pub(crate) fn validate_image(container: &At<'_>) {
    let image = container.at("image");
    if image.str().trim() != image.str() {
        image.invalid("must not have leading or trailing whitespace");
    }
}

fn validate_ports(ports: &At<'_>) {
    let mut names = BTreeSet::new();
    for port in ports.items() {
        let own = port.at("name");
        if !own.is_empty() {
            let complaints = name::port(own.str());
            let formed = complaints.is_empty();
            name::report(own.str(), complaints, own.errors());
            if formed && !names.insert(own.str()) {
                own.duplicate();
            }
        }
        let number = port.at("containerPort");
        match number.int() {
            0 => number.required(""),
            1..=65535 => {}
            _ => number.invalid(PORTS),
        }
        let host = port.at("hostPort");
        if !(0..=65535).contains(&host.int()) {
            host.invalid(PORTS);
        }
        port.at("protocol").require_one_of(PROTOCOLS);
    }
}

/// Reports ports of the host that are taken already; `place` is where the container is reported.
pub(super) fn validate_host_ports(container: &At<'_>, place: &Errors, taken: &mut BTreeSet<String>) {
    for (at, port) in container.at("ports").items().enumerate() {
        let number = port.at("hostPort").int();
        if number == 0 {
            continue;
        }
        let claim = format!(
            "{}/{}/{number}",
            port.at("protocol").str(),
            port.at("hostIP").str()
        );
        if taken.contains(&claim) {
            place.at("ports").index(at).at("hostPort").duplicate(claim);
        } else {
            taken.insert(claim);
        }
    }
}

fn validate_resize(policies: &At<'_>, spec: &At<'_>) {
    let mut seen = BTreeSet::new();
    let never = spec.at("restartPolicy").str() == "Never";
    for policy in policies.items() {
        let (resource, restart) = (policy.at("resourceName").str(), policy.at("restartPolicy").str());
        if !seen.insert(resource) {
            policy.errors().duplicate(resource);
        }
        require_known(policies, resource, &["cpu", "memory"]);
        require_known(policies, restart, &["NotRequired", "RestartContainer"]);
        if never && restart != "NotRequired" {
            policies.invalid_as(
                restart,
                "must be 'NotRequired' when pod `restartPolicy` is 'Never'",
            );
        }
    }
}

fn require_known(place: &At<'_>, text: &str, known: &[&str]) {
    match text {
        "" => place.required(""),
        text if known.contains(&text) => {}
        text => place.errors().not_supported(text, known),
    }
}

/// Reports what is wrong with when an init container is started again; without a policy its rules do not matter.
pub(super) fn validate_init_restarts(container: &At<'_>) {
    if container.at("restartPolicy").is_set() {
        validate_restarts(container);
    } else if !container.at("restartPolicyRules").is_empty() {
        container.at("restartPolicy").required(NO_POLICY);
    }
}

/// Reports what is wrong with when a container is started again.
pub(super) fn validate_restarts(container: &At<'_>) {
    let (policy, rules) = (container.at("restartPolicy"), container.at("restartPolicyRules"));
    if !policy.is_set() {
        if rules.is_empty() {
            return;
        }
        policy.required(NO_POLICY);
    } else if !RESTART_POLICIES.contains(&policy.str()) {
        policy.not_supported(RESTART_POLICIES);
    }
    if rules.len() > RESTARTS {
        rules.too_many(RESTARTS);
    }
    for rule in rules.items() {
        validate_restart(&rule);
    }
}

fn validate_restart(rule: &At<'_>) {
    let (action, codes) = (rule.at("action"), rule.at("exitCodes"));
    if !RESTART_ACTIONS.contains(&action.str()) {
        action.not_supported(RESTART_ACTIONS);
    }
    if !codes.is_set() {
        return codes.required("must be specified");
    }
    let operator = codes.at("operator");
    if !matches!(operator.str(), "In" | "NotIn") {
        operator.not_supported(&["In", "NotIn"]);
    }
    if codes.at("values").len() > EXIT_CODES {
        codes.at("values").too_many(EXIT_CODES);
    }
}

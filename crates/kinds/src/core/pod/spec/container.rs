//! Validation that all types of containers share.

use std::collections::BTreeSet;

use setpoint_api::field::Errors;
use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, name};

use crate::shared::resources::{self, ResourceOwner};

use super::{ContainerContext, env, mounts, security};

pub(super) const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MESSAGE_POLICIES: &[&str] = &["File", "FallbackToLogsOnError"];
const PORTS: &str = "must be between 1 and 65535, inclusive";
const RESTART_POLICIES: &[&str] = &["Always", "Never", "OnFailure"];
const RESTART_ACTIONS: &[&str] = &["Restart", "RestartAllContainers"];
const NO_POLICY: &str = "must specify restartPolicy when restart rules are used";
const RESTARTS: usize = 20;
const EXIT_CODES: usize = 255;

/// Validates a container of any type.
pub(super) fn validate(container: &FieldRef<'_>, container_context: &ContainerContext<'_>) {
    let name = container.at(fields::NAME);
    if name.require() {
        name::check(&name, name::check_dns1123_label);
    }
    container.at(fields::IMAGE).require();
    container
        .at(fields::TERMINATION_MESSAGE_POLICY)
        .require_one_of(MESSAGE_POLICIES);
    validate_ports(&container.at(fields::PORTS));
    env::validate(&container.at(fields::ENV));
    env::validate_from(&container.at(fields::ENV_FROM));
    mounts::validate(container, container_context);
    container
        .at(fields::IMAGE_PULL_POLICY)
        .require_one_of(PULL_POLICIES);
    resources::validate(
        &container.at(fields::RESOURCES),
        &container_context.resources(ResourceOwner::Container),
    );
    validate_resize(&container.at(fields::RESIZE_POLICY), container_context.spec);
    security::validate(&container.at(fields::SECURITY_CONTEXT), container_context);
}

/// Reports an image with leading or trailing blanks, which is allowed in templates.
pub(crate) fn validate_image(container: &FieldRef<'_>) {
    let image = container.at(fields::IMAGE);
    if image.str().trim() != image.str() {
        image.invalid("must not have leading or trailing whitespace");
    }
}

fn validate_ports(ports: &FieldRef<'_>) {
    let mut names = BTreeSet::new();
    for port in ports.items() {
        let name = port.at(fields::NAME);
        if !name.is_empty() {
            let violations = name::port(name.str());
            let formed = violations.is_empty();
            name::report(name.str(), violations, name.errors());
            if formed && !names.insert(name.str()) {
                name.duplicate();
            }
        }
        let number = port.at(fields::CONTAINER_PORT);
        match number.int() {
            0 => number.required(""),
            1..=65535 => {}
            _ => number.invalid(PORTS),
        }
        let host = port.at(fields::HOST_PORT);
        if !(0..=65535).contains(&host.int()) {
            host.invalid(PORTS);
        }
        port.at(fields::PROTOCOL).require_one_of(PROTOCOLS);
    }
}

/// Reports host ports that are used twice; `errors` is the path of the container.
pub(super) fn validate_host_ports(container: &FieldRef<'_>, field: &Errors, used: &mut BTreeSet<String>) {
    for (at, port) in container.at(fields::PORTS).items().enumerate() {
        let number = port.at(fields::HOST_PORT).int();
        if number == 0 {
            continue;
        }
        let claim = format!(
            "{}/{}/{number}",
            port.at(fields::PROTOCOL).str(),
            port.at(fields::HOST_IP).str()
        );
        if used.contains(&claim) {
            field
                .at(fields::PORTS)
                .index(at)
                .at(fields::HOST_PORT)
                .duplicate(claim);
        } else {
            used.insert(claim);
        }
    }
}

fn validate_resize(policies: &FieldRef<'_>, spec: &FieldRef<'_>) {
    let mut seen = BTreeSet::new();
    let never = spec.at(fields::RESTART_POLICY).str() == "Never";
    for policy in policies.items() {
        let (resource, restart) = (
            policy.at(fields::RESOURCE_NAME).str(),
            policy.at(fields::RESTART_POLICY).str(),
        );
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

fn require_known(field: &FieldRef<'_>, text: &str, known: &[&str]) {
    match text {
        "" => field.required(""),
        text if known.contains(&text) => {}
        text => field.errors().not_supported(text, known),
    }
}

/// Validates the restart policy and restart rules of an init container; rules without a policy are ignored.
pub(super) fn validate_init_restarts(container: &FieldRef<'_>) {
    if container.at(fields::RESTART_POLICY).is_set() {
        validate_restarts(container);
    } else if !container.at(fields::RESTART_POLICY_RULES).is_empty() {
        container.at(fields::RESTART_POLICY).required(NO_POLICY);
    }
}

/// Validates the restart policy and restart rules of a container.
pub(super) fn validate_restarts(container: &FieldRef<'_>) {
    let (policy, rules) = (
        container.at(fields::RESTART_POLICY),
        container.at(fields::RESTART_POLICY_RULES),
    );
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

fn validate_restart(rule: &FieldRef<'_>) {
    let (action, codes) = (rule.at(fields::ACTION), rule.at(fields::EXIT_CODES));
    if !RESTART_ACTIONS.contains(&action.str()) {
        action.not_supported(RESTART_ACTIONS);
    }
    if !codes.is_set() {
        return codes.required("must be specified");
    }
    let operator = codes.at(fields::OPERATOR);
    if !matches!(operator.str(), "In" | "NotIn") {
        operator.not_supported(&["In", "NotIn"]);
    }
    if codes.at(fields::VALUES).len() > EXIT_CODES {
        codes.at(fields::VALUES).too_many(EXIT_CODES);
    }
}

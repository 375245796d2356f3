//! The rules of containers.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec};

use setpoint_api::field::Errors;

use super::one_of;
use crate::shared::{name, resources};

const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MESSAGE_POLICIES: &[&str] = &["FallbackToLogsOnError", "File"];

/// Reports what is wrong with the containers of a spec.
pub(super) fn validate(spec: &PodSpec, errors: &Errors<'_>) {
    if spec.containers.is_empty() {
        errors.at("containers").required("");
    }
    let mut names = BTreeSet::new();
    for (at, container) in spec.containers.iter().enumerate() {
        let errors = errors.at("containers");
        let errors = errors.index(at);
        validate_name(&container.name, &mut names, &errors);
        validate_one(container, &errors);
    }
    validate_ports(spec, &errors.at("containers"));
    for (at, container) in spec.init_containers.iter().flatten().enumerate() {
        let errors = errors.at("initContainers");
        let errors = errors.index(at);
        validate_name(&container.name, &mut names, &errors);
        validate_init(container, &errors);
        validate_one(container, &errors);
    }
}

fn validate_name<'a>(own: &'a str, names: &mut BTreeSet<&'a str>, errors: &Errors<'_>) {
    let errors = errors.at("name");
    if own.is_empty() {
        errors.required("");
        return;
    }
    name::report(own, name::label(own), &errors);
    if !names.insert(own) {
        errors.duplicate(own);
    }
}

fn validate_one(container: &Container, errors: &Errors<'_>) {
    let image = container.image.as_deref().unwrap_or_default();
    if image.is_empty() {
        errors.at("image").required("");
    } else if image.trim() != image {
        errors
            .at("image")
            .invalid(image, "must not have leading or trailing whitespace");
    }
    one_of(
        container.image_pull_policy.as_deref(),
        PULL_POLICIES,
        &errors.at("imagePullPolicy"),
    );
    one_of(
        container.termination_message_policy.as_deref(),
        MESSAGE_POLICIES,
        &errors.at("terminationMessagePolicy"),
    );
    for (at, variable) in container.env.iter().flatten().enumerate() {
        let errors = errors.at("env");
        let errors = errors.index(at);
        if variable.name.is_empty() {
            errors.at("name").required("");
        } else {
            name::report(&variable.name, name::env_var(&variable.name), &errors.at("name"));
        }
        let given = variable.value.as_ref().is_some_and(|value| !value.is_empty());
        if given && variable.value_from.is_some() {
            let detail = "may not be specified when `value` is not empty";
            errors.at("valueFrom").invalid("", detail);
        }
    }
    if let Some(asked) = &container.resources {
        resources::validate(asked, &errors.at("resources"));
    }
}

/// An init container that does not stay has nothing to be probed or stopped.
fn validate_init(container: &Container, errors: &Errors<'_>) {
    if container.restart_policy.as_deref() == Some("Always") {
        return;
    }
    let unfit = "may not be set for init containers without restartPolicy=Always";
    for (field, is_set) in [
        ("lifecycle", container.lifecycle.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
    ] {
        if is_set {
            errors.at(field).forbidden(unfit);
        }
    }
}

fn validate_ports(spec: &PodSpec, errors: &Errors<'_>) {
    let host_network = spec.host_network == Some(true);
    let mut taken = BTreeSet::new();
    for (at, container) in spec.containers.iter().enumerate() {
        let errors = errors.index(at);
        let mut names = BTreeSet::new();
        for (at, port) in container.ports.iter().flatten().enumerate() {
            let errors = errors.at("ports");
            let errors = errors.index(at);
            validate_port(port, host_network, &errors);
            if let Some(own) = port.name.as_deref().filter(|own| !own.is_empty()) {
                name::report(own, name::port(own), &errors.at("name"));
                if !names.insert(own) {
                    errors.at("name").duplicate(own);
                }
            }
            let host_port = port.host_port.unwrap_or_default();
            let host_ip = port.host_ip.as_deref().unwrap_or_default();
            let protocol = port.protocol.as_deref().unwrap_or_default();
            let claim = format!("{protocol}/{host_ip}/{host_port}");
            if host_port != 0 && !taken.insert(claim.clone()) {
                errors.at("hostPort").duplicate(claim);
            }
        }
    }
}

fn validate_port(port: &ContainerPort, host_network: bool, errors: &Errors<'_>) {
    let range = "must be between 1 and 65535, inclusive";
    match port.container_port {
        0 => errors.at("containerPort").required(""),
        1..=65535 => {}
        number => errors.at("containerPort").invalid(number, range),
    }
    let host_port = port.host_port.unwrap_or_default();
    if !(0..=65535).contains(&host_port) {
        errors.at("hostPort").invalid(host_port, range);
    } else if host_network && host_port != port.container_port {
        let detail = "must match `containerPort` when `hostNetwork` is true";
        errors.at("hostPort").invalid(host_port, detail);
    }
    one_of(port.protocol.as_deref(), PROTOCOLS, &errors.at("protocol"));
}

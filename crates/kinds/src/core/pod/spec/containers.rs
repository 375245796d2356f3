//! The rules of containers.

use std::collections::BTreeSet;

use crate::at::At;
use crate::shared::{name, resources};

const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MESSAGE_POLICIES: &[&str] = &["FallbackToLogsOnError", "File"];
const PORTS: &str = "must be between 1 and 65535, inclusive";

/// Reports what is wrong with the containers of a spec.
pub(super) fn validate(spec: &At<'_>) {
    let containers = spec.at("containers");
    containers.require();
    let mut names = BTreeSet::new();
    for container in containers.items() {
        validate_name(&container.at("name"), &mut names);
        validate_one(&container);
    }
    validate_ports(spec);
    for container in spec.at("initContainers").items() {
        validate_name(&container.at("name"), &mut names);
        validate_init(&container);
        validate_one(&container);
    }
}

fn validate_name<'a>(own: &At<'a>, names: &mut BTreeSet<&'a str>) {
    if !own.require() {
        return;
    }
    name::check(own, name::label);
    if !names.insert(own.str()) {
        own.duplicate();
    }
}

fn validate_one(container: &At<'_>) {
    let image = container.at("image");
    if image.require() && image.str().trim() != image.str() {
        image.invalid("must not have leading or trailing whitespace");
    }
    container.at("imagePullPolicy").require_one_of(PULL_POLICIES);
    container
        .at("terminationMessagePolicy")
        .require_one_of(MESSAGE_POLICIES);
    for variable in container.at("env").items() {
        if variable.at("name").require() {
            name::check(&variable.at("name"), name::env_var);
        }
        if !variable.at("value").is_empty() && variable.at("valueFrom").is_set() {
            variable
                .at("valueFrom")
                .invalid_as("", "may not be specified when `value` is not empty");
        }
    }
    resources::validate(&container.at("resources"));
}

/// An init container that does not stay has nothing to be probed or stopped.
fn validate_init(container: &At<'_>) {
    if container.at("restartPolicy").str() == super::super::ALWAYS {
        return;
    }
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if container.at(field).is_set() {
            container
                .at(field)
                .forbidden("may not be set for init containers without restartPolicy=Always");
        }
    }
}

fn validate_ports(spec: &At<'_>) {
    let host_network = spec.at("hostNetwork").bool();
    let mut taken = BTreeSet::new();
    for container in spec.at("containers").items() {
        let mut names = BTreeSet::new();
        for port in container.at("ports").items() {
            validate_port(&port, host_network);
            let own = port.at("name");
            if !own.is_empty() {
                name::check(&own, name::port);
                if !names.insert(own.str()) {
                    own.duplicate();
                }
            }
            let host_port = port.at("hostPort");
            let (protocol, ip) = (port.at("protocol").str(), port.at("hostIP").str());
            let claim = format!("{protocol}/{ip}/{}", host_port.int());
            if host_port.int() != 0 && !taken.insert(claim.clone()) {
                host_port.errors().duplicate(claim);
            }
        }
    }
}

fn validate_port(port: &At<'_>, host_network: bool) {
    let own = port.at("containerPort");
    match own.int() {
        0 => own.required(""),
        1..=65535 => {}
        _ => own.invalid(PORTS),
    }
    let host = port.at("hostPort");
    if !(0..=65535).contains(&host.int()) {
        host.invalid(PORTS);
    } else if host_network && host.int() != own.int() {
        host.invalid("must match `containerPort` when `hostNetwork` is true");
    }
    port.at("protocol").require_one_of(PROTOCOLS);
}

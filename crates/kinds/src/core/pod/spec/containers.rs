//! The lists of containers: which there must be, and what sets each list apart.

use std::collections::BTreeSet;

use crate::at::At;
use crate::core::pod::ALWAYS;

use super::{Inside, container, probes};

const NO_SIDECAR: &str = "may not be set for init containers without restartPolicy=Always";
const NOT_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";
/// What an ephemeral container cannot have.
const LASTING: &[&str] = &[
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Reports what is wrong with the containers of a spec.
pub(super) fn validate(inside: &Inside<'_>) {
    validate_main(inside);
    validate_init(inside);
    validate_ephemeral(inside);
}

fn validate_main(inside: &Inside<'_>) {
    let containers = inside.spec.at("containers");
    if !containers.require() {
        return;
    }
    let mut names = BTreeSet::new();
    for container in containers.items() {
        container::validate(&container, inside);
        let own = container.at("name");
        if !names.insert(own.str()) {
            own.duplicate();
        }
        probes::validate(&container, inside);
        container::validate_restarts(&container);
    }
    let mut taken = BTreeSet::new();
    for container in containers.items() {
        container::validate_host_ports(&container, container.errors(), &mut taken);
    }
}

fn validate_init(inside: &Inside<'_>) {
    let containers = inside.spec.at("initContainers");
    let mut names = names(inside.spec, &["containers"]);
    for container in containers.items() {
        container::validate(&container, inside);
        container::validate_init_restarts(&container);
        let own = container.at("name");
        if !own.is_empty() && !names.insert(own.str()) {
            own.duplicate();
        }
        // Each is looked at alone and reported as the first, as they run one after the other.
        let place = containers.errors().index(0);
        container::validate_host_ports(&container, &place, &mut BTreeSet::new());
        if container.at("restartPolicy").str() == ALWAYS {
            probes::validate(&container, inside);
        } else {
            validate_passing(&container, inside);
        }
    }
}

/// An init container that does not stay has nothing to be probed or stopped.
fn validate_passing(container: &At<'_>, inside: &Inside<'_>) {
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if container.at(field).is_set() {
            container.at(field).forbidden(NO_SIDECAR);
        }
    }
    if inside.waived.restarts_on_resize {
        return;
    }
    for policy in container.at("resizePolicy").items() {
        let restart = policy.at("restartPolicy");
        if restart.str() == "RestartContainer" {
            restart.invalid("must not be set to 'RestartContainer' for non-sidecar initContainers");
        }
    }
}

fn validate_ephemeral(inside: &Inside<'_>) {
    let others = names(inside.spec, &["containers", "initContainers"]);
    let mut names = others.clone();
    for container in inside.spec.at("ephemeralContainers").items() {
        container::validate(&container, inside);
        container::validate_image(&container);
        let (own, target) = (container.at("name"), container.at("targetContainerName"));
        if !names.insert(own.str()) {
            own.duplicate();
        }
        if !target.is_empty() && !others.contains(target.str()) {
            target.not_found();
        }
        validate_passing_by(&container);
    }
}

fn validate_passing_by(container: &At<'_>) {
    for field in LASTING.iter().map(|field| container.at(field)) {
        if field.is_set() {
            field.forbidden(NOT_EPHEMERAL);
        }
    }
    for mount in container.at("volumeMounts").items() {
        for field in ["subPath", "subPathExpr"].map(|field| mount.at(field)) {
            if !field.is_empty() {
                field.forbidden(NOT_EPHEMERAL);
            }
        }
    }
}

fn names<'a>(spec: &At<'a>, lists: &[&str]) -> BTreeSet<&'a str> {
    let containers = lists.iter().flat_map(|list| spec.at(list).items());
    containers.map(|container| container.at("name").str()).collect()
}

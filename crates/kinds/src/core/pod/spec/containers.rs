//! The three lists of containers and their differences.

use std::collections::BTreeSet;

use setpoint_schema::fields;
use setpoint_strategy::FieldRef;

use crate::core::pod::ALWAYS;

use super::{ContainerContext, container, probes};

const NO_SIDECAR: &str = "may not be set for init containers without restartPolicy=Always";
const NOT_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";
/// Fields that an ephemeral container cannot have.
const NOT_IN_EPHEMERAL: &[&str] = &[
    fields::PORTS,
    fields::RESOURCES,
    fields::RESIZE_POLICY,
    fields::RESTART_POLICY,
    fields::RESTART_POLICY_RULES,
    fields::LIVENESS_PROBE,
    fields::READINESS_PROBE,
    fields::STARTUP_PROBE,
    fields::LIFECYCLE,
];

/// Validates the containers of a spec.
pub(super) fn validate(container_context: &ContainerContext<'_>) {
    validate_main(container_context);
    validate_init(container_context);
    validate_ephemeral(container_context);
}

fn validate_main(container_context: &ContainerContext<'_>) {
    let containers = container_context.spec.at(fields::CONTAINERS);
    if !containers.require() {
        return;
    }
    let mut names = BTreeSet::new();
    for container in containers.items() {
        container::validate(&container, container_context);
        let name = container.at(fields::NAME);
        if !names.insert(name.str()) {
            name.duplicate();
        }
        probes::validate(&container, container_context);
        container::validate_restarts(&container);
    }
    let mut used = BTreeSet::new();
    for container in containers.items() {
        container::validate_host_ports(&container, container.errors(), &mut used);
    }
}

fn validate_init(container_context: &ContainerContext<'_>) {
    let containers = container_context.spec.at(fields::INIT_CONTAINERS);
    let mut names = names(container_context.spec, &[fields::CONTAINERS]);
    for container in containers.items() {
        container::validate(&container, container_context);
        container::validate_init_restarts(&container);
        let name = container.at(fields::NAME);
        if !name.is_empty() && !names.insert(name.str()) {
            name.duplicate();
        }
        // Init containers run one after the other, so each is checked alone; Kubernetes reports them all at index 0.
        let field = containers.errors().index(0);
        container::validate_host_ports(&container, &field, &mut BTreeSet::new());
        if container.at(fields::RESTART_POLICY).str() == ALWAYS {
            probes::validate(&container, container_context);
        } else {
            validate_regular_init(&container, container_context);
        }
    }
}

/// A regular init container runs to completion, so it has no probes or lifecycle hooks.
fn validate_regular_init(container: &FieldRef<'_>, container_context: &ContainerContext<'_>) {
    for field in [
        fields::LIFECYCLE,
        fields::LIVENESS_PROBE,
        fields::READINESS_PROBE,
        fields::STARTUP_PROBE,
    ] {
        if container.at(field).is_set() {
            container.at(field).forbidden(NO_SIDECAR);
        }
    }
    if container_context.options.restarts_on_resize {
        return;
    }
    for policy in container.at(fields::RESIZE_POLICY).items() {
        let restart = policy.at(fields::RESTART_POLICY);
        if restart.str() == "RestartContainer" {
            restart.invalid("must not be set to 'RestartContainer' for non-sidecar initContainers");
        }
    }
}

fn validate_ephemeral(container_context: &ContainerContext<'_>) {
    let others = names(
        container_context.spec,
        &[fields::CONTAINERS, fields::INIT_CONTAINERS],
    );
    let mut names = others.clone();
    for container in container_context.spec.at(fields::EPHEMERAL_CONTAINERS).items() {
        container::validate(&container, container_context);
        container::validate_image(&container);
        let (name, target) = (
            container.at(fields::NAME),
            container.at(fields::TARGET_CONTAINER_NAME),
        );
        if !names.insert(name.str()) {
            name.duplicate();
        }
        if !target.is_empty() && !others.contains(target.str()) {
            target.not_found();
        }
        forbid_in_ephemeral(&container);
    }
}

fn forbid_in_ephemeral(container: &FieldRef<'_>) {
    for field in NOT_IN_EPHEMERAL.iter().map(|field| container.at(field)) {
        if field.is_set() {
            field.forbidden(NOT_EPHEMERAL);
        }
    }
    for mount in container.at(fields::VOLUME_MOUNTS).items() {
        for field in [fields::SUB_PATH, fields::SUB_PATH_EXPR].map(|field| mount.at(field)) {
            if !field.is_empty() {
                field.forbidden(NOT_EPHEMERAL);
            }
        }
    }
}

fn names<'a>(spec: &FieldRef<'a>, lists: &[&'a str]) -> BTreeSet<&'a str> {
    let containers = lists.iter().flat_map(|list| spec.at(list).items());
    containers
        .map(|container| container.at(fields::NAME).str())
        .collect()
}

//! Ratcheting: which rules an update may keep violating. A rule that was added after an object was stored is skipped
//! if the old object already violates it.

use setpoint_api::field::Errors;
use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, label_selector};

use crate::core::pod::annotations;
use crate::shared::resources;

use super::{affinity, all_containers, paths, security, topology_spread};

/// Ratcheting options of pod validation (upstream: `PodValidationOptions`): each field allows one violation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
pub(crate) struct PodValidationOptions {
    pub deletion_cost: bool,
    pub partial_huge_pages: bool,
    pub affinity_values: bool,
    pub node_affinity_values: bool,
    pub spread_selectors: bool,
    pub spread_label_keys: bool,
    pub token_paths: bool,
    pub host_sysctls: bool,
    pub devices_without_host_users: bool,
    pub host_network_without_host_users: bool,
    pub empty_images: bool,
    pub admin_without_escalation: bool,
    pub restarts_on_resize: bool,
}

impl PodValidationOptions {
    /// Allows what the old spec and its annotations violate.
    pub(crate) fn for_update(spec: &FieldRef<'_>, annotations: &FieldRef<'_>) -> Self {
        let volumes = spec.at(fields::VOLUMES);
        let no_host_users = spec.at(fields::HOST_USERS).find_bool() == Some(false);
        Self {
            deletion_cost: !annotations::is_deletion_cost(annotations),
            partial_huge_pages: violates(spec, |spec| {
                for container in all_containers(spec) {
                    check_pages(&container.at(fields::RESOURCES));
                }
            }),
            affinity_values: violates(&spec.at(fields::AFFINITY), |affinity| {
                for selector in affinity::pod_selectors(affinity) {
                    label_selector::validate(&selector);
                }
            }),
            node_affinity_values: violates(&spec.at(fields::AFFINITY), affinity::validate_required_nodes),
            spread_selectors: violates(&spec.at(fields::TOPOLOGY_SPREAD_CONSTRAINTS), |constraints| {
                for constraint in constraints.items() {
                    label_selector::validate(&constraint.at(fields::LABEL_SELECTOR));
                }
            }),
            spread_label_keys: violates(&spec.at(fields::TOPOLOGY_SPREAD_CONSTRAINTS), |constraints| {
                for constraint in constraints.items() {
                    topology_spread::validate_label_keys(&constraint, &[fields::MATCH_LABEL_KEYS]);
                }
            }),
            token_paths: violates(&volumes, check_token_paths),
            host_sysctls: violates(spec, security::validate_host_sysctls),
            devices_without_host_users: no_host_users
                && all_containers(spec).any(|container| !container.at(fields::VOLUME_DEVICES).is_empty()),
            host_network_without_host_users: no_host_users && spec.at(fields::HOST_NETWORK).bool(),
            empty_images: volumes.items().any(|volume| {
                volume.at(fields::IMAGE).is_set() && volume.at(fields::IMAGE).at(fields::REFERENCE).is_empty()
            }),
            admin_without_escalation: all_containers(spec).any(|container| {
                security::is_admin_without_escalation(&container.at(fields::SECURITY_CONTEXT))
            }),
            restarts_on_resize: spec
                .at(fields::INIT_CONTAINERS)
                .items()
                .any(|container| restarts_on_resize(&container)),
        }
    }
}

/// Whether a rule reports any error.
fn violates(field: &FieldRef<'_>, rule: impl Fn(&FieldRef<'_>)) -> bool {
    let errors = Errors::default();
    rule(&field.with_errors(errors.clone()));
    !errors.is_empty()
}

fn check_pages(container_resources: &FieldRef<'_>) {
    for list in [fields::LIMITS, fields::REQUESTS] {
        for (name, amount) in container_resources.at(list).entries() {
            resources::validate_pages(name, &amount);
        }
    }
}

fn check_token_paths(volumes: &FieldRef<'_>) {
    let sources = volumes
        .items()
        .flat_map(|volume| volume.at(fields::PROJECTED).at(fields::SOURCES).items());
    for path in sources.map(|source| source.at(fields::SERVICE_ACCOUNT_TOKEN).at(fields::PATH)) {
        if !path.is_empty() {
            paths::check_local_path(&path);
        }
    }
}

fn restarts_on_resize(container: &FieldRef<'_>) -> bool {
    let mut policies = container.at(fields::RESIZE_POLICY).items();
    container.at(fields::RESTART_POLICY).str() != super::super::ALWAYS
        && policies.any(|policy| policy.at(fields::RESTART_POLICY).str() == "RestartContainer")
}

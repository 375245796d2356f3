//! The rules that an object may go on breaking, since it was accepted before they came.

use setpoint_api::field::Errors;

use crate::at::At;
use crate::core::pod::annotations;
use crate::shared::{label_selector, resources};

use super::{affinity, all_containers, paths, security, spread};

/// Which rules are not asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
pub(crate) struct Waived {
    pub deletion_cost: bool,
    pub part_pages: bool,
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

impl Waived {
    /// What the old spec, with its annotations, broke.
    pub(crate) fn by(spec: &At<'_>, annotations: &At<'_>) -> Self {
        let volumes = spec.at("volumes");
        let no_host_users = spec.at("hostUsers").find_bool() == Some(false);
        Self {
            deletion_cost: !annotations::is_deletion_cost(annotations),
            part_pages: breaks(spec, |spec| {
                for container in all_containers(spec) {
                    check_pages(&container.at("resources"));
                }
            }),
            affinity_values: breaks(&spec.at("affinity"), |affinity| {
                for selector in affinity::pod_selectors(affinity) {
                    label_selector::validate(&selector);
                }
            }),
            node_affinity_values: breaks(&spec.at("affinity"), affinity::validate_required_nodes),
            spread_selectors: breaks(&spec.at("topologySpreadConstraints"), |constraints| {
                for constraint in constraints.items() {
                    label_selector::validate(&constraint.at("labelSelector"));
                }
            }),
            spread_label_keys: breaks(&spec.at("topologySpreadConstraints"), |constraints| {
                for constraint in constraints.items() {
                    spread::validate_label_keys(&constraint, &["matchLabelKeys"]);
                }
            }),
            token_paths: breaks(&volumes, check_token_paths),
            host_sysctls: breaks(spec, security::validate_host_sysctls),
            devices_without_host_users: no_host_users
                && all_containers(spec).any(|container| !container.at("volumeDevices").is_empty()),
            host_network_without_host_users: no_host_users && spec.at("hostNetwork").bool(),
            empty_images: volumes
                .items()
                .any(|volume| volume.at("image").is_set() && volume.at("image").at("reference").is_empty()),
            admin_without_escalation: all_containers(spec)
                .any(|container| security::is_admin_without_escalation(&container.at("securityContext"))),
            restarts_on_resize: spec
                .at("initContainers")
                .items()
                .any(|container| restarts_on_resize(&container)),
        }
    }
}

/// Whether a rule finds anything.
fn breaks(place: &At<'_>, rule: impl Fn(&At<'_>)) -> bool {
    let errors = Errors::default();
    rule(&place.reported_at(errors.clone()));
    !errors.is_empty()
}

fn check_pages(own: &At<'_>) {
    for list in ["limits", "requests"] {
        for (name, amount) in own.at(list).entries() {
            resources::validate_pages(name, &amount);
        }
    }
}

fn check_token_paths(volumes: &At<'_>) {
    let sources = volumes
        .items()
        .flat_map(|volume| volume.at("projected").at("sources").items());
    for path in sources.map(|source| source.at("serviceAccountToken").at("path")) {
        if !path.is_empty() {
            paths::check_local(&path);
        }
    }
}

fn restarts_on_resize(container: &At<'_>) -> bool {
    let mut policies = container.at("resizePolicy").items();
    container.at("restartPolicy").str() != super::super::ALWAYS
        && policies.any(|policy| policy.at("restartPolicy").str() == "RestartContainer")
}

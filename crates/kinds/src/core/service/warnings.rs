//! Warnings about a valid service.

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, ip, meta};

use super::{HINTS_ANNOTATION, NO_ADDRESS, TOPOLOGY_ANNOTATION};

pub(super) fn of(service: &FieldRef<'_>) -> Vec<String> {
    let spec = service.at(fields::SPEC);
    let kind = spec.at(fields::TYPE).str();
    let headless = kind == "ClusterIP" && spec.at(fields::CLUSTER_IP).str() == NO_ADDRESS;
    let external = !spec.at(fields::EXTERNAL_IPS).is_empty();
    let mut warnings = Vec::new();
    if meta::entry(service.value(), fields::ANNOTATIONS, HINTS_ANNOTATION).is_some() {
        warnings.push(format!(
            "annotation {HINTS_ANNOTATION} is deprecated, please use {TOPOLOGY_ANNOTATION} instead"
        ));
    }
    warnings.extend(addresses(&spec.at(fields::CLUSTER_IPS)));
    if headless {
        warnings.extend(ignored(&spec));
    }
    warnings.extend(addresses(&spec.at(fields::EXTERNAL_IPS)));
    if external && !headless && kind != "ExternalName" {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    warnings.extend(ip::warn(
        "spec.loadBalancerIP",
        spec.at(fields::LOAD_BALANCER_IP).str(),
    ));
    for range in spec.at(fields::LOAD_BALANCER_SOURCE_RANGES).items() {
        warnings.extend(ip::warn_cidr(&range.errors().path(), range.str()));
    }
    if kind == "ExternalName" && external {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && !spec.at(fields::EXTERNAL_NAME).is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.at(fields::TRAFFIC_DISTRIBUTION).str() == "PreferClose" {
        warnings.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned(),
        );
    }
    warnings
}

fn addresses(list: &FieldRef<'_>) -> Vec<String> {
    let addresses = list.items();
    addresses
        .filter_map(|address| ip::warn(&address.errors().path(), address.str()))
        .collect()
}

/// Warnings about fields that a headless service ignores.
fn ignored(spec: &FieldRef<'_>) -> Vec<String> {
    [
        (
            fields::LOAD_BALANCER_IP,
            !spec.at(fields::LOAD_BALANCER_IP).is_empty(),
        ),
        (fields::EXTERNAL_IPS, !spec.at(fields::EXTERNAL_IPS).is_empty()),
        (
            "SessionAffinity",
            spec.at(fields::SESSION_AFFINITY).str() != "None",
        ),
    ]
    .into_iter()
    .filter(|(_, is_set)| *is_set)
    .map(|(field, _)| format!("spec.{field} is ignored for headless services"))
    .collect()
}

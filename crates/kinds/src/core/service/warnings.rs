//! Warnings about a valid service.

use super::{HINTS_ANNOTATION, NO_ADDRESS, TOPOLOGY_ANNOTATION};
use crate::field::FieldRef;
use crate::meta;
use crate::shared::ip;

pub(super) fn of(service: &FieldRef<'_>) -> Vec<String> {
    let spec = service.at("spec");
    let kind = spec.at("type").str();
    let headless = kind == "ClusterIP" && spec.at("clusterIP").str() == NO_ADDRESS;
    let external = !spec.at("externalIPs").is_empty();
    let mut warnings = Vec::new();
    if meta::entry(service.value(), "annotations", HINTS_ANNOTATION).is_some() {
        warnings.push(format!(
            "annotation {HINTS_ANNOTATION} is deprecated, please use {TOPOLOGY_ANNOTATION} instead"
        ));
    }
    warnings.extend(addresses(&spec.at("clusterIPs")));
    if headless {
        warnings.extend(ignored(&spec));
    }
    warnings.extend(addresses(&spec.at("externalIPs")));
    if external && !headless && kind != "ExternalName" {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    warnings.extend(ip::warn("spec.loadBalancerIP", spec.at("loadBalancerIP").str()));
    for range in spec.at("loadBalancerSourceRanges").items() {
        warnings.extend(ip::warn_cidr(&range.errors().path(), range.str()));
    }
    if kind == "ExternalName" && external {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && !spec.at("externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.at("trafficDistribution").str() == "PreferClose" {
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
        ("loadBalancerIP", !spec.at("loadBalancerIP").is_empty()),
        ("externalIPs", !spec.at("externalIPs").is_empty()),
        ("SessionAffinity", spec.at("sessionAffinity").str() != "None"),
    ]
    .into_iter()
    .filter(|(_, is_set)| *is_set)
    .map(|(field, _)| format!("spec.{field} is ignored for headless services"))
    .collect()
}

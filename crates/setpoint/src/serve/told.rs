//! What the controllers are told when they start.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use setpoint_auth::AccessControl;
use setpoint_auth::token::LegacyClaims;
use setpoint_controllers::certificates::Authority;
use setpoint_controllers::cidr::Cidr;
use setpoint_controllers::node_ipam::ClusterCidrs;
use setpoint_controllers::serviceaccount_tokens::TokenGenerator;
use setpoint_controllers::{Config, Resource, Resources, ServedResources};
use setpoint_registry::Registry;

use crate::args::{ControllerFlags, Up};
use crate::pki::Pki;
use crate::serve::aggregation::{self, Aggregation};

/// All that the controllers are told.
pub(super) fn controllers(
    args: &Up,
    pki: &Pki,
    (registry, others): (&Arc<Registry>, &Aggregation),
    access: &AccessControl,
) -> Result<Config> {
    let services = args.service_cluster_ip_range.to_string();
    Ok(Config {
        resources: served(registry, others),
        aggregator: others.hooks(),
        concurrent_syncs: args.controller_flags.concurrent_syncs(),
        root_ca: pki.authority.certificate.clone(),
        authority: Some(authority(&args.controller_flags, pki)?),
        signing_duration: args.controller_flags.cluster_signing_duration,
        token_generator: Some(tokens(access)),
        autoscaler: args.controller_flags.autoscaler_settings(),
        cluster_cidrs: pod_ranges(&args.controller_flags, &services)?,
        terminated_pod_threshold: args.controller_flags.terminated_pod_gc_threshold,
        ..Config::default()
    })
}

/// Who signs requests: who is named, or the cluster's own authority.
fn authority(args: &ControllerFlags, pki: &Pki) -> Result<Authority> {
    let read = |file: &Path| {
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
    };
    Ok(
        match (&args.cluster_signing_cert_file, &args.cluster_signing_key_file) {
            (Some(certificate), Some(key)) => Authority {
                certificate: read(certificate)?,
                key: read(key)?,
            },
            _ => Authority {
                certificate: pki.authority.certificate.clone(),
                key: pki.authority.key.clone(),
            },
        },
    )
}

/// What is served at any time, for the controllers that look after everything.
fn served(registry: &Arc<Registry>, others: &Aggregation) -> ServedResources {
    let (changes, of_others) = (registry.kinds_changed(), others.aggregator.changes());
    let (registry, aggregator) = (registry.clone(), others.aggregator.clone());
    let resource = |about: &setpoint_kinds::KindInfo| Resource {
        gvk: about.gvk.clone(),
        gvr: about.gvr.clone(),
        namespaced: about.is_namespaced(),
    };
    let list = move || {
        let kinds = registry.kinds();
        let kept = kinds.iter().filter(|kind| kind.info().is_storage_version());
        let kept = kept.map(|kind| resource(kind.info()));
        let all: Resources = kept.chain(aggregation::resources(&aggregator)).collect();
        all.with_undiscovered(aggregator.stale_versions())
    };
    ServedResources::new(list, changes).with_remote_changes(of_others)
}

/// Who makes the tokens that are kept in secrets.
fn tokens(access: &AccessControl) -> TokenGenerator {
    let issuer = access.issuer.clone();
    TokenGenerator::new(move |wanted| {
        let claims = LegacyClaims::new(
            wanted.namespace,
            wanted.secret,
            wanted.account,
            wanted.account_uid,
        );
        issuer.sign(&claims).map_err(|error| error.to_string())
    })
}

/// The addresses that nodes get for their pods: at most one range of each family, none of them those of services.
fn pod_ranges(args: &ControllerFlags, services: &str) -> Result<ClusterCidrs> {
    if !args.allocate_node_cidrs {
        return Ok(ClusterCidrs::default());
    }
    ensure!(
        !args.cluster_cidr.is_empty(),
        "--allocate-node-cidrs needs a --cluster-cidr"
    );
    let families = args.cluster_cidr.iter().map(|range| range.is_v4());
    ensure!(
        families.collect::<std::collections::HashSet<_>>().len() == args.cluster_cidr.len(),
        "--cluster-cidr takes at most one range of each family"
    );
    let size = |range: &Cidr| match range.is_v4() {
        true => args.node_cidr_mask_size,
        false => args.node_cidr_mask_size_ipv6,
    };
    for range in &args.cluster_cidr {
        ensure!(
            range.subnet(size(range), 0).is_some(),
            "nodes cannot have a /{} of the cluster's {range}",
            size(range)
        );
    }
    let taken = services.parse().context("unreadable range of services")?;
    Ok(ClusterCidrs {
        pools: args
            .cluster_cidr
            .iter()
            .map(|range| (*range, size(range)))
            .collect(),
        excluded: vec![taken],
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    #[track_caller]
    fn check(flags: &str, expected: Result<usize, &str>) {
        let words = ["setpoint", "up"].into_iter().chain(flags.split_whitespace());
        let Command::Up(up) = Args::parse_from(words).command else {
            panic!("it is up");
        };
        let pools = pod_ranges(&up.controller_flags, "10.0.0.0/24");
        let found = pools
            .map(|pools| pools.pools.len())
            .map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn nodes_get_addresses_only_if_there_are_some() {
        check("", Ok(0));
        check("--cluster-cidr 10.244.0.0/16", Ok(0));
        let both = "--allocate-node-cidrs --cluster-cidr 10.244.0.0/16,fd00::/48";
        check(both, Ok(2));
        check(
            "--allocate-node-cidrs",
            Err("--allocate-node-cidrs needs a --cluster-cidr"),
        );
        check(
            "--allocate-node-cidrs --cluster-cidr 10.1.0.0/16,10.2.0.0/16",
            Err("--cluster-cidr takes at most one range of each family"),
        );
        check(
            "--allocate-node-cidrs --cluster-cidr 10.1.0.0/25",
            Err("nodes cannot have a /24 of the cluster's 10.1.0.0/25"),
        );
    }
}

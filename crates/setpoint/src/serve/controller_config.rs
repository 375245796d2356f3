//! `controllers::Config`, built from the flags, the certificates and the served resources.

use std::sync::Arc;

use anyhow::{Result, ensure};
use setpoint_auth::token::LegacyClaims;
use setpoint_auth::{AccessControl, Issuer};
use setpoint_controllers::node_ipam::ClusterCidrs;
use setpoint_controllers::serviceaccount_tokens::{TokenGenerator, TokenUses};
use setpoint_controllers::validatingadmissionpolicy_status::{ExpressionWarning, PolicyTypeChecker};
use setpoint_controllers::{Config, Resource, Resources, ServedResources};
use setpoint_registry::Registry;
use setpoint_strategy::Kinds;
use setpoint_values::Cidr;

use crate::args::{ControllerFlags, NodeLifecycleFlags, Up};
use crate::serve::aggregation::{self, Aggregation};
use crate::serve::cluster::kinds_provider;
use crate::serve::credentials::Credentials;

/// The configuration of all controllers.
pub(super) fn controller_config(
    args: &Up,
    credentials: &Credentials,
    (registry, aggregation): (&Arc<Registry>, &Aggregation),
    (access, uses): (&AccessControl, TokenUses),
) -> Result<Config> {
    let flags = (&args.controller_flags, &args.node_lifecycle_flags);
    let certificate_changes = credentials.certificates.clone();
    let current = certificate_changes.borrow().clone();
    Ok(Config {
        resources: served_resources(registry, aggregation),
        aggregator: aggregation.hooks(),
        root_ca: current.root_ca,
        client_ca: current.client_ca,
        proxy_ca: current.proxy_ca,
        authority: current.authority,
        certificate_changes: Some(certificate_changes),
        token_generator: Some(token_generator(&access.issuer)),
        token_uses: uses,
        policy_type_checker: policy_type_checker(kinds_provider(registry)),
        ..flag_config(flags, args.service_cluster_ip_range)?
    })
}

/// What flags alone configure.
pub(crate) fn flag_config(
    (flags, node_lifecycle): (&ControllerFlags, &NodeLifecycleFlags),
    services: Cidr,
) -> Result<Config> {
    Ok(Config {
        concurrent_syncs: flags.concurrent_syncs(),
        signing_duration: flags.cluster_signing_duration,
        autoscaler: flags.autoscaler_settings(),
        cluster_cidrs: cluster_cidrs(flags, services)?,
        node_lifecycle: node_lifecycle.settings(),
        terminated_pod_threshold: flags.terminated_pod_gc_threshold,
        ..Config::default()
    })
}

/// Checks expressions against the kinds that are served.
pub(crate) fn policy_type_checker(
    kinds: impl Fn() -> Arc<Kinds> + Send + Sync + 'static,
) -> PolicyTypeChecker {
    PolicyTypeChecker::new(move |policy| {
        let warnings = setpoint_admission::check_policy_types(policy, &kinds());
        let warnings = warnings.into_iter().map(|warning| ExpressionWarning {
            field_ref: warning.field_ref,
            warning: warning.warning,
        });
        warnings.collect()
    })
}

/// The resources served here and by aggregated API servers at any time, for the garbage collector, the namespace
/// controller and others that handle every resource.
fn served_resources(registry: &Arc<Registry>, aggregation: &Aggregation) -> ServedResources {
    let (changes, remote_changes) = (registry.kinds_changed(), aggregation.aggregator.changes());
    let (registry, aggregator) = (registry.clone(), aggregation.aggregator.clone());
    let resource = |info: &setpoint_strategy::KindInfo| Resource {
        gvk: info.gvk.clone(),
        gvr: info.gvr.clone(),
        namespaced: info.is_namespaced(),
    };
    let list = move || {
        let kinds = registry.kinds();
        let local = kinds.iter().filter(|kind| kind.info().is_storage_version());
        let local = local.map(|kind| resource(kind.info()));
        let all: Resources = local.chain(aggregation::resources(&aggregator)).collect();
        all.with_undiscovered(aggregator.stale_versions())
    };
    ServedResources::new(list, changes).with_remote_changes(remote_changes)
}

/// Signs the legacy tokens of service account token Secrets.
pub(crate) fn token_generator(issuer: &Arc<Issuer>) -> TokenGenerator {
    let issuer = issuer.clone();
    TokenGenerator::new(move |request| {
        let claims = LegacyClaims::new(
            request.namespace,
            request.secret,
            request.account,
            request.account_uid,
        );
        issuer.sign(&claims).map_err(|error| error.to_string())
    })
}

/// The pod CIDR ranges that nodes get theirs from: at most one of each IP family, excluding the service range.
fn cluster_cidrs(args: &ControllerFlags, services: Cidr) -> Result<ClusterCidrs> {
    if !args.allocate_node_cidrs {
        return Ok(ClusterCidrs::default());
    }
    ensure!(
        !args.cluster_cidr.is_empty(),
        "--allocate-node-cidrs requires --cluster-cidr"
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
            "invalid node CIDR mask size {}: the cluster CIDR {range} has no such subnet",
            size(range)
        );
    }
    Ok(ClusterCidrs {
        pools: args
            .cluster_cidr
            .iter()
            .map(|range| (*range, size(range)))
            .collect(),
        excluded: vec![services],
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    #[track_caller]
    fn check(flags: &str, expected: Result<usize, &str>) {
        let arguments = ["setpoint", "up"].into_iter().chain(flags.split_whitespace());
        let Command::Up(up) = Args::parse_from(arguments).command else {
            panic!("the command is up");
        };
        let pools = cluster_cidrs(&up.controller_flags, up.service_cluster_ip_range);
        let actual = pools
            .map(|pools| pools.pools.len())
            .map_err(|error| error.to_string());
        assert_eq!(actual, expected.map_err(str::to_owned));
    }

    #[test]
    fn nodes_get_pod_cidrs_only_if_the_flags_are_valid() {
        check("", Ok(0));
        check("--cluster-cidr 10.244.0.0/16", Ok(0));
        let both = "--allocate-node-cidrs --cluster-cidr 10.244.0.0/16,fd00::/48";
        check(both, Ok(2));
        check(
            "--allocate-node-cidrs",
            Err("--allocate-node-cidrs requires --cluster-cidr"),
        );
        check(
            "--allocate-node-cidrs --cluster-cidr 10.1.0.0/16,10.2.0.0/16",
            Err("--cluster-cidr takes at most one range of each family"),
        );
        check(
            "--allocate-node-cidrs --cluster-cidr 10.1.0.0/25",
            Err("invalid node CIDR mask size 24: the cluster CIDR 10.1.0.0/25 has no such subnet"),
        );
    }
}

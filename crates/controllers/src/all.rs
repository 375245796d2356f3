//! The list of controllers, and how one is picked from it.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use setpoint_runtime::manager::Running;
use setpoint_runtime::{Context, Error};
use tokio_util::sync::CancellationToken;

use crate::account_tokens::{Tokens, Uses};
use crate::api_service::Aggregation;
use crate::certificates::Authority;
use crate::node_ipam::Pools;
use crate::resources::Served;
use crate::{
    account_tokens, autoscaler, bootstrap, certificates, claim_protection, class_protection,
    cluster_role_aggregation, cron_job, daemon_set, deployment, device_taint_eviction, disruption,
    endpoint_mirroring, endpoint_slice, endpoints, ephemeral_volume, garbage_collector, job, namespace,
    node_ipam, node_lifecycle, node_ttl, pod_gc, policy_status, replica_set, resource_claim, resource_quota,
    root_ca, service_account, service_cidr, stateful_set, storage_migration, taint_eviction, trust_bundle,
    ttl_after_finished, volume_binder, volume_expander, volume_protection,
};

/// What the controllers are told when they start.
#[derive(Debug, Clone)]
pub struct Config {
    /// Everything that is served, for those that look after objects of every kind.
    pub resources: Served,
    /// How many objects a controller of this name works on at a time, where somebody has said so.
    pub syncs: BTreeMap<&'static str, usize>,
    /// The certificates by which the server is known, as PEM; empty if there are none.
    pub root_ca: String,
    /// Who signs certificates; nobody if it is absent.
    pub authority: Option<Authority>,
    /// Who makes the tokens that are kept in secrets; nobody if it is absent.
    pub tokens: Option<Tokens>,
    /// By whom it is told that such tokens are used.
    pub token_uses: Uses,
    /// The addresses that nodes get for their pods; none if nobody gives them any.
    pub pod_ranges: Pools,
    /// What autoscalers go by where they do not say so themselves.
    pub autoscaler: autoscaler::Settings,
    /// How servers behind this one are told of, and asked.
    pub aggregation: Aggregation,
    /// How long certificates that are signed last at most.
    pub signing_duration: Duration,
    /// How many finished pods are kept; 0 is all of them.
    pub terminated_pod_threshold: usize,
}

/// As many objects as most controllers work on at a time.
const SYNCS: usize = 5;
/// As long as kube-controller-manager signs for: a year.
const SIGNING_DURATION: Duration = Duration::from_secs(365 * 24 * 3600);
/// As many finished pods as kube-controller-manager keeps.
const TERMINATED_PODS: usize = 12_500;

/// A controller by its name.
#[derive(Clone)]
pub struct Named {
    /// As kube-controller-manager has it.
    pub name: &'static str,
    /// Whether it runs only if it is asked for by its name.
    optional: bool,
    start: Arc<dyn Fn(Context, Config, CancellationToken) -> Running + Send + Sync>,
}

/// A list of controllers names one that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown controller {0:?}")]
pub struct Unknown(pub String);

/// All controllers.
pub fn all() -> Vec<Named> {
    vec![
        Named::new(account_tokens::cleaning::NAME, account_tokens::cleaning::run),
        Named::new(account_tokens::filling::NAME, account_tokens::filling::run),
        Named::new(autoscaler::NAME, autoscaler::run),
        Named::new(bootstrap::cleaning::NAME, bootstrap::cleaning::run).optional(),
        Named::new(bootstrap::signing::NAME, bootstrap::signing::run).optional(),
        Named::new(certificates::approving::NAME, certificates::approving::run),
        Named::new(certificates::cleaning::NAME, certificates::cleaning::run),
        Named::new(
            certificates::cleaning_pods::NAME,
            certificates::cleaning_pods::run,
        ),
        Named::new(certificates::signing::NAME, certificates::signing::run),
        Named::new(claim_protection::NAME, claim_protection::run),
        Named::new(class_protection::NAME, class_protection::run),
        Named::new(cluster_role_aggregation::NAME, cluster_role_aggregation::run),
        Named::new(cron_job::NAME, cron_job::run),
        Named::new(daemon_set::NAME, daemon_set::run),
        Named::new(deployment::NAME, deployment::run),
        Named::new(device_taint_eviction::NAME, device_taint_eviction::run),
        Named::new(disruption::NAME, disruption::run),
        Named::new(endpoint_mirroring::NAME, endpoint_mirroring::run),
        Named::new(endpoint_slice::NAME, endpoint_slice::run),
        Named::new(endpoints::NAME, endpoints::run),
        Named::new(ephemeral_volume::NAME, ephemeral_volume::run),
        Named::new(garbage_collector::NAME, |context, config, stop| {
            garbage_collector::run(context, config.resources, stop)
        }),
        Named::new(job::NAME, job::run),
        Named::new(namespace::NAME, |context, config, stop| {
            namespace::run(context, config.resources, stop)
        }),
        Named::new(node_ipam::NAME, node_ipam::run),
        Named::new(node_lifecycle::NAME, node_lifecycle::run),
        Named::new(node_ttl::NAME, node_ttl::run),
        Named::new(pod_gc::NAME, pod_gc::run),
        Named::new(policy_status::NAME, policy_status::run),
        Named::new(replica_set::NAME, replica_set::run),
        Named::new(replica_set::REPLICATION_NAME, replica_set::run_replication),
        Named::new(resource_claim::NAME, resource_claim::run),
        Named::new(resource_quota::NAME, resource_quota::run),
        Named::new(root_ca::NAME, root_ca::run),
        Named::new(service_account::NAME, |context, _, stop| {
            service_account::run(context, stop)
        }),
        Named::new(service_cidr::NAME, service_cidr::run),
        Named::new(stateful_set::NAME, stateful_set::run),
        Named::new(storage_migration::NAME, storage_migration::run),
        Named::new(taint_eviction::NAME, taint_eviction::run),
        Named::new(trust_bundle::NAME, trust_bundle::run),
        Named::new(ttl_after_finished::NAME, ttl_after_finished::run),
        Named::new(volume_binder::NAME, volume_binder::run),
        Named::new(volume_expander::NAME, volume_expander::run),
        Named::new(volume_protection::NAME, volume_protection::run),
    ]
}

/// The controllers that a list names: `*` is all of them but those that must be named, `name` one, `-name` not this one. The first that fits
/// counts. Names may be given without `-controller`.
pub fn select(list: &[&str]) -> Result<Vec<Named>, Unknown> {
    let all = all();
    for word in list.iter().filter(|word| **word != "*") {
        let name = word.strip_prefix('-').unwrap_or(word);
        if !all.iter().any(|one| one.is_called(name)) {
            return Err(Unknown(name.to_owned()));
        }
    }
    Ok(all.into_iter().filter(|one| one.is_selected(list)).collect())
}

// === impl Config ===

impl Default for Config {
    fn default() -> Self {
        Self {
            resources: Served::default(),
            syncs: BTreeMap::new(),
            root_ca: String::new(),
            authority: None,
            tokens: None,
            token_uses: Uses::default(),
            pod_ranges: Pools::default(),
            autoscaler: autoscaler::Settings::default(),
            aggregation: Aggregation::default(),
            signing_duration: SIGNING_DURATION,
            terminated_pod_threshold: TERMINATED_PODS,
        }
    }
}

impl Config {
    /// How many objects the controller of this name works on at a time.
    pub fn workers(&self, controller: &str) -> usize {
        self.syncs.get(controller).copied().unwrap_or(SYNCS)
    }
}

// === impl Named ===

impl Named {
    pub(crate) fn new<F>(
        name: &'static str,
        run: impl Fn(Context, Config, CancellationToken) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let start =
            Arc::new(move |context, config, stop| -> Running { Box::pin(run(context, config, stop)) });
        let optional = false;
        Self {
            name,
            optional,
            start,
        }
    }

    /// The same, which runs only if it is asked for by its name.
    fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    /// Runs it until stopped.
    pub fn run(&self, context: Context, config: Config, stop: CancellationToken) -> Running {
        (self.start)(context, config, stop)
    }

    /// Whether this is its name, with or without `-controller`.
    pub fn is_called(&self, name: &str) -> bool {
        name == self.name || Some(name) == self.name.strip_suffix("-controller")
    }

    fn is_selected(&self, list: &[&str]) -> bool {
        let means = |word: &&&str| self.is_called(word.strip_prefix('-').unwrap_or(word));
        match list.iter().find(means) {
            Some(word) => !word.starts_with('-'),
            None => !self.optional && list.contains(&"*"),
        }
    }
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &[&str], expected: &[&str]) {
        let names: Vec<&str> = select(list).unwrap().iter().map(|one| one.name).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn a_list_names_controllers_with_or_without_the_suffix() {
        check(&["replicaset"], &[replica_set::NAME]);
        check(&["replicaset-controller"], &[replica_set::NAME]);
        check(&[], &[]);
    }

    #[test]
    fn a_star_is_all_and_a_minus_takes_one_away() {
        let names =
            |list: &[&str]| -> Vec<&str> { select(list).unwrap().iter().map(|one| one.name).collect() };
        let usual = |one: &&Named| !one.optional;
        let every: Vec<&str> = all().iter().filter(usual).map(|one| one.name).collect();
        assert_eq!(names(&["*"]), every);
        let less = names(&["*", "-garbage-collector", "-namespace-controller"]);
        assert_eq!(less.len(), every.len() - 2);
        assert!(!less.contains(&garbage_collector::NAME) && !less.contains(&namespace::NAME));
    }

    #[test]
    fn some_run_only_if_they_are_named() {
        let more = |list: &[&str]| select(list).unwrap().len() - select(&["*"]).unwrap().len();
        assert_eq!(more(&["*", "token-cleaner", "bootstrap-signer-controller"]), 2);
        check(&["token-cleaner"], &[bootstrap::cleaning::NAME]);
    }

    #[test]
    fn an_unknown_name_is_told() {
        assert_eq!(
            select(&["*", "-nope"]).unwrap_err().to_string(),
            "unknown controller \"nope\""
        );
    }
}

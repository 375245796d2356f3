//! The descriptors of all controllers, and their selection by `--controllers`.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use setpoint_runtime::manager::RunnableFuture;
use setpoint_runtime::{Context, Error};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::api_service::AggregatorHooks;
use crate::certificate_changes::{self, ClusterCertificates};
use crate::certificates::Authority;
use crate::node_ipam::ClusterCidrs;
use crate::resources::ServedResources;
use crate::serviceaccount_tokens::{TokenGenerator, TokenUses};
use crate::validatingadmissionpolicy_status::PolicyTypeChecker;
use crate::{
    bootstrap, certificates, cluster_role_aggregation, clustertrustbundle_publisher, cron_job, daemon_set,
    deployment, device_taint_eviction, disruption, endpoint_slice, endpoint_slice_mirroring, endpoints,
    ephemeral_volume, garbage_collector, horizontal_pod_autoscaler, job, namespace, node_ipam,
    node_lifecycle, persistentvolume_binder, persistentvolume_expander, pod_gc, pv_protection,
    pvc_protection, replica_set, resource_claim, resource_quota, root_ca_publisher, service_account,
    service_cidr, serviceaccount_tokens, stateful_set, storage_version_migrator, taint_eviction, ttl,
    ttl_after_finished, vac_protection, validatingadmissionpolicy_status,
};

/// The descriptor of the controller in a module, by its `NAME` and `run`.
macro_rules! controller {
    ($($module:ident)::+) => {
        ControllerDescriptor::new($($module)::+::NAME, $($module)::+::run)
    };
}

/// The configuration of the controllers.
#[derive(Debug, Clone)]
pub struct Config {
    /// All served resources, for the controllers that handle objects of every kind.
    pub resources: ServedResources,
    /// The number of workers by controller name, where a flag sets it.
    pub concurrent_syncs: BTreeMap<&'static str, usize>,
    /// The CA certificates of the API server, as PEM; empty if there are none.
    pub root_ca: String,
    /// The CA certificates of users' client certificates, as PEM; empty if there are none.
    pub client_ca: String,
    /// The CA certificates of front proxies, as PEM; empty if there are none.
    pub proxy_ca: String,
    /// The certificate authority that signs CertificateSigningRequests; without it none is signed.
    pub authority: Option<Authority>,
    /// Later values of the certificates above. The controllers that use them run again with each.
    pub certificate_changes: Option<watch::Receiver<ClusterCertificates>>,
    /// Generates the tokens in service account token Secrets; without it none are filled in.
    pub token_generator: Option<TokenGenerator>,
    /// Receives the uses of such tokens from the authenticator.
    pub token_uses: TokenUses,
    /// The CIDRs from which nodes get their pod CIDRs; none are allocated if it is empty.
    pub cluster_cidrs: ClusterCidrs,
    /// The defaults of HorizontalPodAutoscalers.
    pub autoscaler: horizontal_pod_autoscaler::Settings,
    /// The hooks into the aggregator of remote API servers.
    pub aggregator: AggregatorHooks,
    /// The longest duration of a signed certificate.
    pub signing_duration: Duration,
    /// Grace periods and eviction rates of nodes.
    pub node_lifecycle: node_lifecycle::Settings,
    /// How many terminated pods are kept; 0 keeps all.
    pub terminated_pod_threshold: usize,
    /// Checks the types of the expressions of ValidatingAdmissionPolicies.
    pub policy_type_checker: PolicyTypeChecker,
}

/// The field manager of controllers, as Kubernetes derives it from the user agent of their process.
const FIELD_MANAGER: &str = "kube-controller-manager";
/// The field manager of the controllers of the API server.
const API_SERVER_FIELD_MANAGER: &str = "kube-apiserver";
/// The number of workers of most controllers.
const DEFAULT_CONCURRENT_SYNCS: usize = 5;
/// kube-controller-manager's default: a year.
const SIGNING_DURATION: Duration = Duration::from_secs(365 * 24 * 3600);
/// kube-controller-manager's default.
const TERMINATED_POD_THRESHOLD: usize = 12_500;

/// A controller and its name.
#[derive(Clone)]
pub struct ControllerDescriptor {
    /// The name as kube-controller-manager has it.
    pub name: &'static str,
    /// Whether it runs only if `--controllers` names it.
    optional: bool,
    /// Whether it runs again when the certificates change.
    uses_certificates: bool,
    /// The owner of the fields that it writes.
    field_manager: &'static str,
    start: StartController,
}

/// Starts a controller.
pub(crate) type StartController =
    Arc<dyn Fn(Context, Config, CancellationToken) -> RunnableFuture + Send + Sync>;

/// `--controllers` names a controller that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown controller {0:?}")]
pub struct UnknownController(pub String);

/// All controllers.
pub fn controller_descriptors() -> Vec<ControllerDescriptor> {
    vec![
        controller!(serviceaccount_tokens::legacy_serviceaccount_token_cleaner),
        controller!(serviceaccount_tokens::serviceaccount_token).uses_certificates(),
        controller!(horizontal_pod_autoscaler),
        controller!(bootstrap::token_cleaner).optional(),
        controller!(bootstrap::bootstrap_signer).optional(),
        controller!(certificates::approver),
        controller!(certificates::cleaner),
        controller!(certificates::podcertificaterequest_cleaner),
        controller!(certificates::signer).uses_certificates(),
        controller!(pvc_protection),
        controller!(vac_protection),
        controller!(cluster_role_aggregation),
        controller!(cron_job),
        controller!(daemon_set),
        controller!(deployment),
        controller!(device_taint_eviction),
        controller!(disruption),
        controller!(endpoint_slice_mirroring),
        controller!(endpoint_slice),
        controller!(endpoints),
        controller!(ephemeral_volume),
        ControllerDescriptor::new(garbage_collector::NAME, |context, config, stop| {
            garbage_collector::run(context, config.resources, stop)
        }),
        controller!(job),
        ControllerDescriptor::new(namespace::NAME, |context, config, stop| {
            namespace::run(context, config.resources, stop)
        }),
        controller!(node_ipam),
        controller!(node_lifecycle),
        controller!(ttl),
        controller!(pod_gc),
        controller!(validatingadmissionpolicy_status),
        controller!(replica_set),
        ControllerDescriptor::new(replica_set::REPLICATION_NAME, replica_set::run_replication),
        controller!(resource_claim),
        controller!(resource_quota),
        controller!(root_ca_publisher).uses_certificates(),
        controller!(service_account),
        controller!(service_cidr),
        controller!(stateful_set),
        controller!(storage_version_migrator),
        controller!(taint_eviction),
        controller!(clustertrustbundle_publisher).uses_certificates(),
        controller!(ttl_after_finished),
        controller!(persistentvolume_binder),
        controller!(persistentvolume_expander),
        controller!(pv_protection),
    ]
}

/// The controllers that a list selects: `*` is all but the optional ones, `name` enables one, `-name` disables one. The
/// first matching entry decides. The suffix `-controller` may be left out.
pub fn select(list: &[&str]) -> Result<Vec<ControllerDescriptor>, UnknownController> {
    let all = controller_descriptors();
    for word in list.iter().filter(|word| **word != "*") {
        let name = word.strip_prefix('-').unwrap_or(word);
        if !all.iter().any(|one| one.has_name(name)) {
            return Err(UnknownController(name.to_owned()));
        }
    }
    Ok(all.into_iter().filter(|one| one.is_selected(list)).collect())
}

// === impl Config ===

impl Default for Config {
    fn default() -> Self {
        Self {
            resources: ServedResources::default(),
            concurrent_syncs: BTreeMap::new(),
            root_ca: String::new(),
            client_ca: String::new(),
            proxy_ca: String::new(),
            authority: None,
            certificate_changes: None,
            token_generator: None,
            token_uses: TokenUses::default(),
            cluster_cidrs: ClusterCidrs::default(),
            autoscaler: horizontal_pod_autoscaler::Settings::default(),
            aggregator: AggregatorHooks::default(),
            signing_duration: SIGNING_DURATION,
            node_lifecycle: node_lifecycle::Settings::default(),
            terminated_pod_threshold: TERMINATED_POD_THRESHOLD,
            policy_type_checker: PolicyTypeChecker::default(),
        }
    }
}

impl Config {
    /// How many workers the controller of this name has.
    pub fn workers(&self, controller: &str) -> usize {
        self.concurrent_syncs
            .get(controller)
            .copied()
            .unwrap_or(DEFAULT_CONCURRENT_SYNCS)
    }
}

// === impl ControllerDescriptor ===

impl ControllerDescriptor {
    pub(crate) fn new<F>(
        name: &'static str,
        run: impl Fn(Context, Config, CancellationToken) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let start =
            Arc::new(move |context, config, stop| -> RunnableFuture { Box::pin(run(context, config, stop)) });
        Self {
            name,
            optional: false,
            uses_certificates: false,
            field_manager: FIELD_MANAGER,
            start,
        }
    }

    /// The same controller, run again when the certificates in its configuration change.
    pub(crate) fn uses_certificates(self) -> Self {
        Self {
            uses_certificates: true,
            ..self
        }
    }

    /// The same controller as a part of the API server, which owns the fields that it writes.
    pub(crate) fn of_api_server(self) -> Self {
        Self {
            field_manager: API_SERVER_FIELD_MANAGER,
            ..self
        }
    }

    /// The same controller, run only if `--controllers` names it.
    fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    /// Runs the controller until stopped.
    pub fn run(&self, context: Context, config: Config, stop: CancellationToken) -> RunnableFuture {
        let context = context.with_field_manager(self.field_manager);
        match config.certificate_changes.clone() {
            Some(changes) if self.uses_certificates => {
                let start = self.start.clone();
                Box::pin(certificate_changes::run(start, context, config, changes, stop))
            }
            _ => (self.start)(context, config, stop),
        }
    }

    /// Whether this is the controller's name, with or without `-controller`.
    pub fn has_name(&self, name: &str) -> bool {
        name == self.name || Some(name) == self.name.strip_suffix("-controller")
    }

    fn is_selected(&self, list: &[&str]) -> bool {
        let means = |word: &&&str| self.has_name(word.strip_prefix('-').unwrap_or(word));
        match list.iter().find(means) {
            Some(word) => !word.starts_with('-'),
            None => !self.optional && list.contains(&"*"),
        }
    }
}

impl fmt::Debug for ControllerDescriptor {
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
        let is_default = |one: &&ControllerDescriptor| !one.optional;
        let every: Vec<&str> = controller_descriptors()
            .iter()
            .filter(is_default)
            .map(|one| one.name)
            .collect();
        assert_eq!(names(&["*"]), every);
        let less = names(&["*", "-garbage-collector", "-namespace-controller"]);
        assert_eq!(less.len(), every.len() - 2);
        assert!(!less.contains(&garbage_collector::NAME) && !less.contains(&namespace::NAME));
    }

    #[test]
    fn optional_controllers_run_only_if_named() {
        let more = |list: &[&str]| select(list).unwrap().len() - select(&["*"]).unwrap().len();
        assert_eq!(more(&["*", "token-cleaner", "bootstrap-signer-controller"]), 2);
        check(&["token-cleaner"], &[bootstrap::token_cleaner::NAME]);
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        assert_eq!(
            select(&["*", "-nope"]).unwrap_err().to_string(),
            "unknown controller \"nope\""
        );
    }
}

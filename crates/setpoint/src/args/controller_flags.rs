//! How the controllers are set up, by the flags that kube-controller-manager has for it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use setpoint_controllers as controllers;
use setpoint_controllers::cidr::Cidr;

/// What may be said about the controllers.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Controllers")]
pub(crate) struct ControllerFlags {
    /// Give every node a range of addresses for its pods, out of `--cluster-cidr`.
    #[arg(long)]
    pub allocate_node_cidrs: bool,
    /// The addresses that pods may have: a range, or one of each family.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub cluster_cidr: Vec<Cidr>,
    /// How many bits all addresses of a node have in common.
    #[arg(long, value_name = "BITS", default_value_t = 24)]
    pub node_cidr_mask_size: u32,
    /// The same, of addresses of the newer family.
    #[arg(long, value_name = "BITS", default_value_t = 64)]
    pub node_cidr_mask_size_ipv6: u32,
    /// The certificate of the authority that signs requests, in PEM; the cluster's own unless it is given.
    #[arg(long, value_name = "FILE", requires = "cluster_signing_key_file")]
    pub cluster_signing_cert_file: Option<PathBuf>,
    /// The key of that authority, in PEM.
    #[arg(long, value_name = "FILE", requires = "cluster_signing_cert_file")]
    pub cluster_signing_key_file: Option<PathBuf>,
    /// How long the certificates that the cluster signs last at most, such as `8760h`.
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = super::duration)]
    pub cluster_signing_duration: Duration,
    /// How many CronJobs are looked after at a time.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_cron_job_syncs: usize,
    /// How many DaemonSets are looked after at a time.
    #[arg(long, value_name = "N", default_value_t = 2)]
    concurrent_daemonset_syncs: usize,
    /// How many Deployments are looked after at a time.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_deployment_syncs: usize,
    /// How many services have their Endpoints looked after at a time.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_endpoint_syncs: usize,
    /// How many HorizontalPodAutoscalers are looked after at a time.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_horizontal_pod_autoscaler_syncs: usize,
    /// How many secrets for tokens of accounts are looked after at a time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    concurrent_serviceaccount_token_syncs: usize,
    /// How many policies of admission are looked after at a time.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_validating_admission_policy_status_syncs: usize,
    /// How often autoscalers look at their figures.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = super::duration)]
    horizontal_pod_autoscaler_sync_period: Duration,
    /// How long autoscalers wait before they take replicas away.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = super::duration)]
    horizontal_pod_autoscaler_downscale_stabilization: Duration,
    /// How far from one the ratio of what is to what should be may be without effect.
    #[arg(long, value_name = "RATIO", default_value_t = 0.1)]
    horizontal_pod_autoscaler_tolerance: f64,
    /// How long the processor time of new pods may be what they need to start.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = super::duration)]
    horizontal_pod_autoscaler_cpu_initialization_period: Duration,
    /// So soon after its start a pod that is told not to be ready has never been.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = super::duration)]
    horizontal_pod_autoscaler_initial_readiness_delay: Duration,
    /// How many Jobs are looked after at a time.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_job_syncs: usize,
    /// How many ReplicationControllers are looked after at a time.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_rc_syncs: usize,
    /// How many ReplicaSets are looked after at a time.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_replicaset_syncs: usize,
    /// How many ResourceQuotas are counted at a time.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_resource_quota_syncs: usize,
    /// How many services have their EndpointSlices looked after at a time.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_service_endpoint_syncs: usize,
    /// How many StatefulSets are looked after at a time.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_statefulset_syncs: usize,
    /// How many finished Jobs are looked after at a time.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_ttl_after_finished_syncs: usize,
    /// How many pods that have come to their end are kept; 0 keeps all.
    #[arg(long, value_name = "N", default_value_t = 12_500)]
    pub terminated_pod_gc_threshold: usize,
}

impl ControllerFlags {
    /// What autoscalers go by.
    pub(crate) fn autoscaler_settings(&self) -> controllers::horizontal_pod_autoscaler::Settings {
        controllers::horizontal_pod_autoscaler::Settings {
            period: self.horizontal_pod_autoscaler_sync_period,
            downscale_stabilization: self.horizontal_pod_autoscaler_downscale_stabilization,
            tolerance: self.horizontal_pod_autoscaler_tolerance,
            cpu_initialization_period: self.horizontal_pod_autoscaler_cpu_initialization_period,
            initial_readiness_delay: self.horizontal_pod_autoscaler_initial_readiness_delay,
        }
    }

    /// How many objects the controllers work on at a time, by their names.
    pub(crate) fn concurrent_syncs(&self) -> BTreeMap<&'static str, usize> {
        BTreeMap::from([
            (
                controllers::horizontal_pod_autoscaler::NAME,
                self.concurrent_horizontal_pod_autoscaler_syncs,
            ),
            (
                controllers::serviceaccount_tokens::serviceaccount_token::NAME,
                self.concurrent_serviceaccount_token_syncs,
            ),
            (
                controllers::validatingadmissionpolicy_status::NAME,
                self.concurrent_validating_admission_policy_status_syncs,
            ),
            (controllers::cron_job::NAME, self.concurrent_cron_job_syncs),
            (controllers::daemon_set::NAME, self.concurrent_daemonset_syncs),
            (controllers::deployment::NAME, self.concurrent_deployment_syncs),
            (controllers::endpoints::NAME, self.concurrent_endpoint_syncs),
            (controllers::job::NAME, self.concurrent_job_syncs),
            (
                controllers::replica_set::REPLICATION_NAME,
                self.concurrent_rc_syncs,
            ),
            (controllers::replica_set::NAME, self.concurrent_replicaset_syncs),
            (
                controllers::resource_quota::NAME,
                self.concurrent_resource_quota_syncs,
            ),
            (
                controllers::endpoint_slice::NAME,
                self.concurrent_service_endpoint_syncs,
            ),
            (controllers::stateful_set::NAME, self.concurrent_statefulset_syncs),
            (
                controllers::ttl_after_finished::NAME,
                self.concurrent_ttl_after_finished_syncs,
            ),
        ])
    }
}

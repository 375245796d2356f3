//! Flags of the controllers, with kube-controller-manager's names and defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use setpoint_controllers as controllers;
use setpoint_values::Cidr;

/// The flags of the controllers.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Controllers")]
pub(crate) struct ControllerFlags {
    /// Should CIDRs for pods be allocated and set on nodes. Requires `--cluster-cidr`.
    #[arg(long)]
    pub allocate_node_cidrs: bool,
    /// CIDR range for pods in the cluster: one range, or one of each IP family.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub cluster_cidr: Vec<Cidr>,
    /// Mask size for the IPv4 node CIDR.
    #[arg(long, value_name = "BITS", default_value_t = 24)]
    pub node_cidr_mask_size: u32,
    /// Mask size for the IPv6 node CIDR.
    #[arg(long, value_name = "BITS", default_value_t = 64)]
    pub node_cidr_mask_size_ipv6: u32,
    /// Filename containing a PEM-encoded X509 CA certificate used to issue cluster-scoped certificates [default: the
    /// cluster's own CA].
    #[arg(long, value_name = "FILE", requires = "cluster_signing_key_file")]
    pub cluster_signing_cert_file: Option<PathBuf>,
    /// Filename containing the PEM-encoded private key of that CA.
    #[arg(long, value_name = "FILE", requires = "cluster_signing_cert_file")]
    pub cluster_signing_key_file: Option<PathBuf>,
    /// The max length of duration signed certificates will be given, such as `8760h`.
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = super::duration)]
    pub cluster_signing_duration: Duration,
    /// The number of CronJob objects that are allowed to sync concurrently.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_cron_job_syncs: usize,
    /// The number of DaemonSet objects that are allowed to sync concurrently.
    #[arg(long, value_name = "N", default_value_t = 2)]
    concurrent_daemonset_syncs: usize,
    /// The number of Deployment objects that are allowed to sync concurrently.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_deployment_syncs: usize,
    /// The number of Services whose Endpoints are synced concurrently.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_endpoint_syncs: usize,
    /// The number of HorizontalPodAutoscaler objects that are allowed to sync concurrently.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_horizontal_pod_autoscaler_syncs: usize,
    /// The number of service account token objects that are allowed to sync concurrently.
    #[arg(long, value_name = "N", default_value_t = 1)]
    concurrent_serviceaccount_token_syncs: usize,
    /// The number of ValidatingAdmissionPolicy status objects that are allowed to sync concurrently.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_validating_admission_policy_status_syncs: usize,
    /// The period for syncing the number of pods in horizontal pod autoscaler.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = super::duration)]
    horizontal_pod_autoscaler_sync_period: Duration,
    /// The period for which the autoscaler will look backwards and not scale down below any recommendation it made during
    /// that period.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = super::duration)]
    horizontal_pod_autoscaler_downscale_stabilization: Duration,
    /// The minimum change (from 1.0) in the desired-to-actual metrics ratio for the autoscaler to consider scaling.
    #[arg(long, value_name = "RATIO", default_value_t = 0.1)]
    horizontal_pod_autoscaler_tolerance: f64,
    /// The period after pod start when CPU samples might be skipped.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = super::duration)]
    horizontal_pod_autoscaler_cpu_initialization_period: Duration,
    /// The period after pod start during which readiness changes will be treated as initial readiness.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = super::duration)]
    horizontal_pod_autoscaler_initial_readiness_delay: Duration,
    /// The number of Job objects that are allowed to sync concurrently.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_job_syncs: usize,
    /// The number of ReplicationController objects that are allowed to sync concurrently.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_rc_syncs: usize,
    /// The number of ReplicaSet objects that are allowed to sync concurrently.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_replicaset_syncs: usize,
    /// The number of ResourceQuota objects that are allowed to sync concurrently.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_resource_quota_syncs: usize,
    /// The number of Services whose EndpointSlices are synced concurrently.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_service_endpoint_syncs: usize,
    /// The number of StatefulSet objects that are allowed to sync concurrently.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_statefulset_syncs: usize,
    /// The number of finished Jobs whose TTL is synced concurrently.
    #[arg(long, value_name = "N", default_value_t = 5)]
    concurrent_ttl_after_finished_syncs: usize,
    /// Number of terminated pods that can exist before the terminated pod garbage collector starts deleting terminated
    /// pods. 0 disables it.
    #[arg(long, value_name = "N", default_value_t = 12_500)]
    pub terminated_pod_gc_threshold: usize,
}

impl ControllerFlags {
    /// The settings of the HorizontalPodAutoscaler controller.
    pub(crate) fn autoscaler_settings(&self) -> controllers::horizontal_pod_autoscaler::Settings {
        controllers::horizontal_pod_autoscaler::Settings {
            period: self.horizontal_pod_autoscaler_sync_period,
            downscale_stabilization: self.horizontal_pod_autoscaler_downscale_stabilization,
            tolerance: self.horizontal_pod_autoscaler_tolerance,
            cpu_initialization_period: self.horizontal_pod_autoscaler_cpu_initialization_period,
            initial_readiness_delay: self.horizontal_pod_autoscaler_initial_readiness_delay,
        }
    }

    /// The number of concurrent syncs of each controller, by controller name.
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

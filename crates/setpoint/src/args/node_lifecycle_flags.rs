//! Flags of the node lifecycle controller, with kube-controller-manager's names and defaults.

use std::time::Duration;

use setpoint_controllers::node_lifecycle::Settings;

/// The flags of the node lifecycle controller.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Node lifecycle")]
pub(crate) struct NodeLifecycleFlags {
    /// How long a node may be silent before its conditions become Unknown.
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = super::duration)]
    node_monitor_grace_period: Duration,
    /// The same for a node that has never reported.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = super::duration)]
    node_startup_grace_period: Duration,
    /// How often a node whose eviction is held back is checked.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = super::duration)]
    node_monitor_period: Duration,
    /// Nodes per second whose pods are evicted when the node has failed and its zone is healthy. Without zones, the
    /// cluster is one zone.
    #[arg(long, value_name = "RATE", default_value_t = 0.1)]
    node_eviction_rate: f64,
    /// The same when the zone is unhealthy. In a zone that is not large it is 0.
    #[arg(long, value_name = "RATE", default_value_t = 0.01)]
    secondary_node_eviction_rate: f64,
    /// The number of nodes above which a zone is large.
    #[arg(long, value_name = "N", default_value_t = 50)]
    large_cluster_size_threshold: usize,
    /// The fraction of nodes that are not ready, at least three, from which a zone is unhealthy.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.55)]
    unhealthy_zone_threshold: f64,
}

impl NodeLifecycleFlags {
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            grace_period: self.node_monitor_grace_period,
            startup_grace_period: self.node_startup_grace_period,
            monitor_period: self.node_monitor_period,
            eviction_rate: self.node_eviction_rate,
            secondary_eviction_rate: self.secondary_node_eviction_rate,
            large_cluster_threshold: self.large_cluster_size_threshold,
            unhealthy_zone_threshold: self.unhealthy_zone_threshold,
        }
    }
}

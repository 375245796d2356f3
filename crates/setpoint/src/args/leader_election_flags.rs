//! The flags of leader election, with the names and defaults of kube-scheduler and kube-controller-manager.

use std::time::Duration;

use clap::ArgAction;

use super::duration;

/// The flags of leader election.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct LeaderElectionFlags {
    /// Start a leader election client and gain leadership before executing the main loop. Enable this when running replicas.
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = ArgAction::Set
    )]
    pub leader_elect: bool,
    /// The duration that non-leader candidates wait after observing a leadership renewal before they acquire the lease.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub leader_elect_lease_duration: Duration,
    /// The interval between attempts by the leader to renew its lease before it stops leading.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub leader_elect_renew_deadline: Duration,
    /// The duration to wait between tries of actions.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub leader_elect_retry_period: Duration,
    /// The name of the lease [default: kube-scheduler or kube-controller-manager].
    #[arg(long, value_name = "NAME")]
    pub leader_elect_resource_name: Option<String>,
    /// The namespace of the lease.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    pub leader_elect_resource_namespace: String,
}

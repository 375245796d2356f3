//! Flags of flow control: how many requests execute at once.

/// The flags of flow control, with kube-apiserver's names and defaults.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Flow control")]
pub(crate) struct FlowControlFlags {
    /// Limit requests by priority levels with fair queues (API priority and fairness). If false, only
    /// `--max-requests-inflight` and `--max-mutating-requests-inflight` limit them.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub enable_priority_and_fairness: bool,
    /// The maximum number of non-mutating requests in flight; 0 for no limit. With priority and fairness, the sum of this
    /// and `--max-mutating-requests-inflight` is the total number of seats and must be positive.
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub max_requests_inflight: usize,
    /// The maximum number of mutating requests in flight; 0 for no limit. With priority and fairness, the sum of this and
    /// `--max-requests-inflight` is the total number of seats and must be positive.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub max_mutating_requests_inflight: usize,
}

//! Flags of the scheduler.

use std::path::PathBuf;

/// The flags of the scheduler.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Scheduler")]
pub(crate) struct SchedulerFlags {
    /// The path to a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1): profiles, plugins and their arguments.
    #[arg(long, value_name = "FILE")]
    pub scheduler_config: Option<PathBuf>,
}

//! The `batch` group: workloads that run to completion.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

pub mod cron_job;
pub mod job;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(BuiltinKind::<cron_job::CronJob>::new()),
        Arc::new(BuiltinKind::<job::Job>::new()),
    ]
}

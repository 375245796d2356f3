//! The `batch` group: work that ends.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod cron_job;
pub mod job;

mod schedule;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Builtin::<cron_job::CronJob>::new()),
        Arc::new(Builtin::<job::Job>::new()),
    ]
}

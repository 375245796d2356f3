//! One file per workload; each starts the servers it needs and adds its lines to the report.

mod clusters;
mod counter;
mod crds;
pub(crate) mod exchange;
mod floor;
mod forms;
mod list;
mod pods;
mod read;
mod start;
pub(crate) mod watch;
pub(crate) mod write;

use std::pin::Pin;

use anyhow::Result;

use super::Setting;
use crate::report::Report;

/// Measures and reports.
pub(crate) type Workload =
    for<'a> fn(&'a Setting, &'a mut Report) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// All workloads, in the order they are run.
pub(crate) fn all() -> [(&'static str, Workload); 11] {
    [
        ("floor", |setting, report| {
            Box::pin(floor::measure(setting, report))
        }),
        ("start", |setting, report| {
            Box::pin(start::measure(setting, report))
        }),
        ("write", |setting, report| {
            Box::pin(write::measure(setting, report))
        }),
        ("forms", |setting, report| {
            Box::pin(forms::measure(setting, report))
        }),
        ("read", |setting, report| Box::pin(read::measure(setting, report))),
        ("list", |setting, report| Box::pin(list::measure(setting, report))),
        ("watch", |setting, report| {
            Box::pin(watch::measure(setting, report))
        }),
        ("counter", |setting, report| {
            Box::pin(counter::measure(setting, report))
        }),
        ("pods", |setting, report| Box::pin(pods::measure(setting, report))),
        ("crds", |setting, report| Box::pin(crds::measure(setting, report))),
        ("clusters", |setting, report| {
            Box::pin(clusters::measure(setting, report))
        }),
    ]
}

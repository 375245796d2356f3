//! The `metrics.k8s.io` group: the current usage of nodes and pods, computed for each request. Kubernetes leaves it to
//! metrics-server, an aggregated API server; it is not among the [`builtin`](crate::builtin) kinds, and a server that reads
//! the usage of its nodes adds it.

use std::sync::Arc;

pub mod node_metrics;
pub mod pod_metrics;

use node_metrics::NodeMetrics;
use pod_metrics::PodMetrics;
use setpoint_api::Quantity;
use setpoint_api::table::Cell;
use setpoint_schema::fields;
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{BuiltinKind, FieldRef, Kind};

/// The kinds of this group, in the order of discovery.
pub fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(BuiltinKind::<NodeMetrics>::new()),
        Arc::new(BuiltinKind::<PodMetrics>::new()),
    ]
}

/// The interval in which the usage was measured.
const WINDOW: Column = with_format(
    Column::text("Window", |metrics, _| {
        columns::or_empty(&metrics.at(fields::WINDOW))
    }),
    "duration",
);

/// The same column with a format.
const fn with_format(mut column: Column, format: &'static str) -> Column {
    column.header.format = format;
    column
}

/// The sum of a resource in these usages.
fn sum<'a>(usages: impl Iterator<Item = FieldRef<'a>>, resource: &str) -> Cell {
    let amounts = usages.filter_map(|usage| usage.at(resource).str().parse::<Quantity>().ok());
    let sum = amounts.reduce(|sum, amount| sum + amount).unwrap_or_default();
    Cell::from(sum.to_string())
}

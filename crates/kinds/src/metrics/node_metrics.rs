//! NodeMetrics: the current usage of a node.

use setpoint_api::{ApiVerb, ApiVerbs};
use setpoint_schema::fields;
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

use super::{WINDOW, sum, with_format};

#[derive(Debug)]
pub struct NodeMetrics;

impl Strategy for NodeMetrics {
    const KIND: (&'static str, &'static str, &'static str) = ("metrics.k8s.io", "v1beta1", "NodeMetrics");
    const NAMES: Names = Names::new("nodes", "");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        with_format(
            Column::text("cpu", |metrics, _| {
                sum([metrics.at(fields::USAGE)].into_iter(), "cpu")
            }),
            "quantity",
        ),
        with_format(
            Column::text("memory", |metrics, _| {
                sum([metrics.at(fields::USAGE)].into_iter(), "memory")
            }),
            "quantity",
        ),
        WINDOW,
    ];
    const RULES: Rules = Rules::VIRTUAL.verbs(ApiVerbs::new(&[ApiVerb::Get, ApiVerb::List]));

    // Read-only kind.
    fn validate(_metrics: &FieldRef<'_>, _facts: &RequestFacts) {}
}

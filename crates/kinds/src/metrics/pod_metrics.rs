//! PodMetrics: the current usage of the containers of a pod.

use setpoint_api::table::Cell;
use setpoint_api::{ApiVerb, ApiVerbs};
use setpoint_schema::fields;
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy};

use super::{WINDOW, sum, with_format};

#[derive(Debug)]
pub struct PodMetrics;

impl Strategy for PodMetrics {
    const KIND: (&'static str, &'static str, &'static str) = ("metrics.k8s.io", "v1beta1", "PodMetrics");
    const NAMES: Names = Names::new("pods", "");
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        with_format(
            Column::text("cpu", |metrics, _| sum_of_containers(metrics, "cpu")),
            "quantity",
        ),
        with_format(
            Column::text("memory", |metrics, _| sum_of_containers(metrics, "memory")),
            "quantity",
        ),
        WINDOW,
    ];
    const RULES: Rules = Rules::VIRTUAL.verbs(ApiVerbs::new(&[ApiVerb::Get, ApiVerb::List]));

    // Read-only kind.
    fn validate(_metrics: &FieldRef<'_>, _facts: &RequestFacts) {}
}

fn sum_of_containers(metrics: &FieldRef<'_>, resource: &str) -> Cell {
    let containers = metrics.at(fields::CONTAINERS);
    sum(
        containers.items().map(|container| container.at(fields::USAGE)),
        resource,
    )
}

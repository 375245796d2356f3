//! ComponentStatus: health of the control plane's components, computed for each request. Deprecated: use the health
//! endpoints.

use setpoint_api::table::Cell;
use setpoint_api::{ApiVerb, ApiVerbs};
use setpoint_schema::fields;
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

#[derive(Debug)]
pub struct ComponentStatus;

impl Strategy for ComponentStatus {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "ComponentStatus");
    const NAMES: Names = Names::new("componentstatuses", "componentstatus").short(&["cs"]);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Status", |component, _| Cell::from(status(component)))
            .description("Whether the component is healthy."),
        Column::text("Message", |component, _| {
            condition_text(component, fields::MESSAGE)
        })
        .description("The message of the health check."),
        Column::text("Error", |component, _| condition_text(component, fields::ERROR))
            .description("The error of the health check."),
    ];
    const RULES: Rules = Rules::VIRTUAL
        .verbs(ApiVerbs::new(&[ApiVerb::Get, ApiVerb::List]))
        .not_found_resource("componentstatus")
        .deprecation_warning("v1 ComponentStatus is deprecated in v1.19+");

    // Read-only kind.
    fn validate(_component: &FieldRef<'_>, _facts: &RequestFacts) {}
}

fn healthy<'a>(component: &FieldRef<'a>) -> Option<FieldRef<'a>> {
    let conditions = component.at(fields::CONDITIONS);
    conditions
        .items()
        .find(|condition| condition.at(fields::TYPE).str() == "Healthy")
}

fn status(component: &FieldRef<'_>) -> &'static str {
    match healthy(component) {
        Some(condition) if condition.at(fields::STATUS).str() == "True" => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    }
}

fn condition_text(component: &FieldRef<'_>, field: &str) -> Cell {
    let condition = healthy(component);
    let text = condition
        .map(|condition| condition.at(field).str())
        .unwrap_or_default();
    Cell::from(text)
}

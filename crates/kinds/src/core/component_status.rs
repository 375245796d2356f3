//! ComponentStatus: how the parts of the control plane are. Nothing reports here any more; health checks say it.

use setpoint_api::table::Cell;

use crate::at::At;
use crate::columns::{self, Column};
use crate::strategy::{Names, Rules, Scope, Strategy};

#[derive(Debug)]
pub struct ComponentStatus;

impl Strategy for ComponentStatus {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "ComponentStatus");
    const NAMES: Names = Names::new("componentstatuses", "componentstatus").short(&["cs"]);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Status", |component, _| Cell::from(status(component))).about("Whether it is well."),
        Column::text("Message", |component, _| said(component, "message")).about("What it says."),
        Column::text("Error", |component, _| said(component, "error")).about("What is wrong."),
    ];
    const RULES: Rules = Rules {
        verbs: &["get", "list"],
        called_absent: "componentstatus",
        deprecated: "v1 ComponentStatus is deprecated in v1.19+",
        ..Rules::DEFAULT
    };

    // Nothing is ever written.
    fn validate(_component: &At<'_>) {}
}

fn healthy<'a>(component: &At<'a>) -> Option<At<'a>> {
    let conditions = component.at("conditions");
    conditions
        .items()
        .find(|condition| condition.at("type").str() == "Healthy")
}

fn status(component: &At<'_>) -> &'static str {
    match healthy(component) {
        Some(condition) if condition.at("status").str() == "True" => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    }
}

fn said(component: &At<'_>, field: &str) -> Cell {
    let condition = healthy(component);
    let text = condition
        .map(|condition| condition.at(field).str())
        .unwrap_or_default();
    Cell::from(text)
}

//! PriorityClass: a name for how important pods are. What it stands for never changes.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use crate::at::At;
use crate::columns::{self, Column};
use crate::strategy::{Names, Rules, Scope, Strategy};

/// The highest priority that is not reserved.
const HIGHEST: i64 = 1_000_000_000;
const SYSTEM_PREFIX: &str = "system-";
/// The classes with a reserved name, and their values.
const SYSTEM: &[(&str, i64)] = &[
    ("system-node-critical", 2_000_001_000),
    ("system-cluster-critical", 2_000_000_000),
];
const POLICIES: &[&str] = &["PreemptLowerPriority", "Never"];

#[derive(Debug)]
pub struct PriorityClass;

impl Strategy for PriorityClass {
    const KIND: (&'static str, &'static str, &'static str) = ("scheduling.k8s.io", "v1", "PriorityClass");
    const NAMES: Names = Names::new("priorityclasses", "priorityclass").short(&["pc"]);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::number("Value", |class, _| Cell::from(class.at("value").int()))
            .about("The priority that pods of this class get."),
        Column::boolean("Global-Default", |class, _| {
            Cell::Boolean(class.at("globalDefault").bool())
        })
        .about("Whether pods that name no class get this one."),
        columns::AGE,
        Column::text("PreemptionPolicy", |class, _| {
            columns::or_empty(&class.at("preemptionPolicy"))
        })
        .about("Whether pods of this class may push others out."),
    ];
    const RULES: Rules = Rules {
        tracks_generation: true,
        ..Rules::DEFAULT
    };

    fn default_fields(class: &mut Tree) {
        class.fill("preemptionPolicy", "PreemptLowerPriority");
    }

    fn validate(class: &At<'_>) {
        let name = class.at("metadata").at("name");
        let value = class.at("value");
        if name.str().starts_with(SYSTEM_PREFIX) {
            if let Err(why) = is_known(name.str(), value.int(), class.at("globalDefault").bool()) {
                name.forbidden(&format!(
                    "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
                ));
            }
        } else if value.int() > HIGHEST {
            value.forbidden(&format!(
                "maximum allowed value of a user defined priority is {HIGHEST}"
            ));
        }
        class.at("preemptionPolicy").one_of(POLICIES);
    }

    // What a class stands for is fixed, so there is nothing to look at again.
    fn validate_again(_class: &At<'_>, _old: &At<'_>) {}

    fn validate_update(class: &At<'_>, old: &At<'_>) {
        if !class.at("value").is_same(&old.at("value")) {
            class.at("value").forbidden("may not be changed in an update.");
        }
        class
            .at("preemptionPolicy")
            .immutable(&old.at("preemptionPolicy"));
    }

    fn asks_for_else(_class: &Tree, _old: &Tree) -> bool {
        false
    }
}

/// Whether a class with a reserved name is the one that the name is reserved for.
fn is_known(name: &str, value: i64, global_default: bool) -> Result<(), String> {
    let Some((_, fixed)) = SYSTEM.iter().find(|(known, _)| *known == name) else {
        return Err(format!("{name} is not a known system priority class"));
    };
    if value != *fixed {
        return Err(format!("value of {name} PriorityClass must be {fixed}"));
    }
    if global_default {
        return Err(format!("globalDefault of {name} PriorityClass must be false"));
    }
    Ok(())
}

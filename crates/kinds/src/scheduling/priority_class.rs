//! PriorityClass: a named pod priority. Its value is immutable.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

/// The highest priority of users' classes.
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
        Column::number("Value", |class, _| Cell::from(class.at(fields::VALUE).int()))
            .description("The priority of pods of this class."),
        Column::boolean("Global-Default", |class, _| {
            Cell::Boolean(class.at(fields::GLOBAL_DEFAULT).bool())
        })
        .description("Whether this is the default class."),
        columns::AGE,
        Column::text("PreemptionPolicy", |class, _| {
            columns::or_empty(&class.at(fields::PREEMPTION_POLICY))
        })
        .description("The preemption policy."),
    ];
    const RULES: Rules = Rules::DEFAULT.tracks_generation();

    fn default_fields(class: &mut Tree) {
        class.set_default(fields::PREEMPTION_POLICY, "PreemptLowerPriority");
    }

    fn validate(class: &FieldRef<'_>, _facts: &RequestFacts) {
        let name = class.at(fields::METADATA).at(fields::NAME);
        let value = class.at(fields::VALUE);
        if name.str().starts_with(SYSTEM_PREFIX) {
            if let Err(why) =
                check_system_class(name.str(), value.int(), class.at(fields::GLOBAL_DEFAULT).bool())
            {
                name.forbidden(&format!(
                    "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
                ));
            }
        } else if value.int() > HIGHEST {
            value.forbidden(&format!(
                "maximum allowed value of a user defined priority is {HIGHEST}"
            ));
        }
        class.at(fields::PREEMPTION_POLICY).one_of(POLICIES);
    }

    // All validated fields are immutable, so there is nothing to validate again.
    fn validate_for_update(_class: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {}

    fn validate_update(class: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        if !class.at(fields::VALUE).is_same(&old.at(fields::VALUE)) {
            class
                .at(fields::VALUE)
                .forbidden("may not be changed in an update.");
        }
        class
            .at(fields::PREEMPTION_POLICY)
            .immutable(&old.at(fields::PREEMPTION_POLICY));
    }

    fn changes_spec(_class: &Tree, _old: &Tree) -> bool {
        false
    }
}

/// Whether a class with a reserved name has the value that the name is reserved for.
fn check_system_class(name: &str, value: i64, global_default: bool) -> Result<(), String> {
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

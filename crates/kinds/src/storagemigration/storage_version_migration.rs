//! StorageVersionMigration: a request to rewrite all objects of a resource.

use setpoint_api::table::Cell;

use crate::columns::{self, Column};
use crate::field::FieldRef;
use crate::shared::{condition, name};
use crate::strategy::{Names, Rules, Scope, Strategy, Subresource};

const STATES: &[&str] = &["Running", "Failed", "Succeeded"];

#[derive(Debug)]
pub struct StorageVersionMigration;

impl Strategy for StorageVersionMigration {
    const KIND: (&'static str, &'static str, &'static str) =
        ("storagemigration.k8s.io", "v1", "StorageVersionMigration");
    const NAMES: Names = Names::new("storageversionmigrations", "storageversionmigration");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Resource", |migration, _| {
            let resource = migration.at("spec").at("resource");
            let (group, plural) = (resource.at("group").str(), resource.at("resource").str());
            Cell::from(if group.is_empty() {
                plural.to_owned()
            } else {
                format!("{plural}.{group}")
            })
        })
        .description("The migrated resource."),
        Column::text("Status", |migration, _| Cell::from(state(migration)))
            .description("The state of the migration."),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        unconditional_update: false,
        ..Rules::DEFAULT
    };

    fn validate(migration: &FieldRef<'_>) {
        let resource = migration.at("spec").at("resource");
        let plural = resource.at("resource");
        if plural.is_empty() {
            plural.required("resource is required to be set");
        } else {
            report_joined(&plural, name::service);
        }
        if !resource.at("group").is_empty() {
            report_joined(&resource.at("group"), name::check_dns1123_subdomain);
        }
    }

    fn validate_update(migration: &FieldRef<'_>, old: &FieldRef<'_>) {
        migration.at("spec").immutable(&old.at("spec"));
    }

    fn validate_status(migration: &FieldRef<'_>, old: &FieldRef<'_>) {
        let status = migration.at("status");
        let conditions = status.at("conditions");
        condition::validate(&conditions);
        let (version, before) = (
            status.at("resourceVersion"),
            old.at("status").at("resourceVersion"),
        );
        if !before.is_empty() {
            version.immutable(&before);
        }
        if is_true(migration, "Succeeded") && is_true(migration, "Failed") {
            conditions.invalid("Both success and failed conditions cannot be true at the same time");
        }
        for (kind, word) in [("Succeeded", "Success"), ("Failed", "Failed")] {
            if is_true(old, kind) && !is_true(migration, kind) {
                let why = format!("{word} condition cannot be set to false once it is true");
                conditions.invalid(&why);
            }
        }
    }
}

fn report_joined(field: &FieldRef<'_>, form: fn(&str) -> name::Violations) {
    let violations = form(field.str());
    if !violations.is_empty() {
        field.invalid(&violations.join(","));
    }
}

fn is_true(migration: &FieldRef<'_>, kind: &str) -> bool {
    let conditions = migration.at("status").at("conditions");
    let mut found = conditions
        .items()
        .filter(|condition| condition.at("type").str() == kind);
    found.any(|condition| condition.at("status").str() == "True")
}

fn state<'a>(migration: &FieldRef<'a>) -> &'a str {
    let conditions = migration.at("status").at("conditions");
    let last = conditions.items().rfind(|condition| {
        condition.at("status").str() == "True" && STATES.contains(&condition.at("type").str())
    });
    last.map_or("Unknown", |condition| condition.at("type").str())
}

//! StorageVersionMigration: a request to rewrite all objects of a resource.

use setpoint_api::table::Cell;
use setpoint_schema::fields;
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{
    EtcdEncoding, FieldRef, Names, RequestFacts, Rules, Scope, Strategy, Subresource, name,
};

use crate::shared::condition;

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
            let resource = migration.at(fields::SPEC).at(fields::RESOURCE);
            let (group, plural) = (
                resource.at(fields::GROUP).str(),
                resource.at(fields::RESOURCE).str(),
            );
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
    const RULES: Rules = Rules::DEFAULT
        .no_unconditional_update()
        .etcd_encoding(EtcdEncoding::ProtobufIn("v1beta1"));

    fn validate(migration: &FieldRef<'_>, _facts: &RequestFacts) {
        let resource = migration.at(fields::SPEC).at(fields::RESOURCE);
        let plural = resource.at(fields::RESOURCE);
        if plural.is_empty() {
            plural.required("resource is required to be set");
        } else {
            report_joined(&plural, name::service);
        }
        if !resource.at(fields::GROUP).is_empty() {
            report_joined(&resource.at(fields::GROUP), name::check_dns1123_subdomain);
        }
    }

    fn validate_update(migration: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        migration.at(fields::SPEC).immutable(&old.at(fields::SPEC));
    }

    fn validate_status(migration: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let status = migration.at(fields::STATUS);
        let conditions = status.at(fields::CONDITIONS);
        condition::validate(&conditions);
        let (version, before) = (
            status.at(fields::RESOURCE_VERSION),
            old.at(fields::STATUS).at(fields::RESOURCE_VERSION),
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
    let conditions = migration.at(fields::STATUS).at(fields::CONDITIONS);
    let mut found = conditions
        .items()
        .filter(|condition| condition.at(fields::TYPE).str() == kind);
    found.any(|condition| condition.at(fields::STATUS).str() == "True")
}

fn state<'a>(migration: &FieldRef<'a>) -> &'a str {
    let conditions = migration.at(fields::STATUS).at(fields::CONDITIONS);
    let last = conditions.items().rfind(|condition| {
        condition.at(fields::STATUS).str() == "True" && STATES.contains(&condition.at(fields::TYPE).str())
    });
    last.map_or("Unknown", |condition| condition.at(fields::TYPE).str())
}

//! Validation and defaults that both role binding kinds share: subjects and the role.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::GROUP;
use crate::columns::{self, Column};
use crate::field::FieldRef;
use crate::shared::name;
use crate::strategy::Scope;

const SUBJECT_KINDS: &[&str] = &["ServiceAccount", "User", "Group"];

/// Printer columns of role bindings.
pub(super) const COLUMNS: &[Column] = &[
    columns::NAME,
    Column::text("Role", |binding, _| {
        let role = binding.at("roleRef");
        Cell::from(format!("{}/{}", role.at("kind").str(), role.at("name").str()))
    })
    .description("The role."),
    columns::AGE,
    Column::text("Users", |binding, _| Cell::from(subject_names(binding, "User")))
        .wide()
        .description("The users."),
    Column::text("Groups", |binding, _| Cell::from(subject_names(binding, "Group")))
        .wide()
        .description("The groups."),
    Column::text("ServiceAccounts", |binding, _| {
        Cell::from(service_account_names(binding))
    })
    .wide()
    .description("The service accounts."),
];

/// Defaults the API group of the role and of each subject.
pub(super) fn set_defaults(binding: &mut Tree) {
    binding.child("roleRef").set_default("apiGroup", GROUP);
    for subject in binding.items_mut("subjects") {
        if matches!(subject.str_at(&["kind"]), Some("User" | "Group")) {
            subject.set_default("apiGroup", GROUP);
        }
    }
}

/// Validates a role binding whose role is of one of these kinds.
pub(super) fn validate(binding: &FieldRef<'_>, roles: &[&str], scope: Scope) {
    let role = binding.at("roleRef");
    if role.at("apiGroup").str() != GROUP {
        role.at("apiGroup").not_supported(&[GROUP]);
    }
    if !roles.contains(&role.at("kind").str()) {
        role.at("kind").not_supported(roles);
    }
    if !role.at("name").is_empty() {
        name::check(&role.at("name"), name::path_segment);
    }
    for subject in binding.at("subjects").items() {
        validate_subject(&subject, scope);
    }
    for subject in binding.at("subjects").items() {
        subject.at("name").require();
    }
    role.at("name").require();
}

/// Reports a changed role.
pub(super) fn validate_update(binding: &FieldRef<'_>, old: &FieldRef<'_>) {
    binding.at("roleRef").immutable(&old.at("roleRef"));
}

fn validate_subject(subject: &FieldRef<'_>, scope: Scope) {
    match subject.at("kind").str() {
        "ServiceAccount" => validate_account(subject, scope),
        "User" | "Group" => {
            if subject.at("apiGroup").str() != GROUP {
                subject.at("apiGroup").not_supported(&[GROUP]);
            }
        }
        _ => subject.at("kind").not_supported(SUBJECT_KINDS),
    }
}

fn validate_account(subject: &FieldRef<'_>, scope: Scope) {
    if !subject.at("name").is_empty() {
        name::check(&subject.at("name"), name::check_dns1123_subdomain);
    }
    if !subject.at("apiGroup").is_empty() {
        subject.at("apiGroup").not_supported(&[""]);
    }
    if scope == Scope::Cluster {
        subject.at("namespace").require();
    }
}

fn subject_names(binding: &FieldRef<'_>, kind: &str) -> String {
    let subjects = binding.at("subjects");
    let names = subjects
        .items()
        .filter(|subject| subject.at("kind").str() == kind);
    names
        .map(|subject| subject.at("name").str())
        .collect::<Vec<_>>()
        .join(", ")
}

fn service_account_names(binding: &FieldRef<'_>) -> String {
    let subjects = binding.at("subjects");
    let accounts = subjects
        .items()
        .filter(|subject| subject.at("kind").str() == "ServiceAccount");
    accounts
        .map(|account| format!("{}/{}", account.at("namespace").str(), account.at("name").str()))
        .collect::<Vec<_>>()
        .join(", ")
}

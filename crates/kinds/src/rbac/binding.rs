//! Validation and defaults that both role binding kinds share: subjects and the role.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Scope, name};

use super::GROUP;

const SUBJECT_KINDS: &[&str] = &["ServiceAccount", "User", "Group"];

/// Printer columns of role bindings.
pub(super) const COLUMNS: &[Column] = &[
    columns::NAME,
    Column::text("Role", |binding, _| {
        let role = binding.at(fields::ROLE_REF);
        Cell::from(format!(
            "{}/{}",
            role.at(fields::KIND).str(),
            role.at(fields::NAME).str()
        ))
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
    binding
        .child(fields::ROLE_REF)
        .set_default(fields::API_GROUP, GROUP);
    for subject in binding.items_mut(fields::SUBJECTS) {
        if matches!(subject.str_at(&[fields::KIND]), Some("User" | "Group")) {
            subject.set_default(fields::API_GROUP, GROUP);
        }
    }
}

/// Validates a role binding whose role is of one of these kinds.
pub(super) fn validate(binding: &FieldRef<'_>, roles: &[&str], scope: Scope) {
    let role = binding.at(fields::ROLE_REF);
    validate_role(&role, roles);
    validate_subjects(binding, scope);
    require_subjects(binding);
    role.at(fields::NAME).require();
}

/// Validates an update of a role binding, whose role is immutable. The order of errors differs from that of a create.
pub(super) fn validate_update(binding: &FieldRef<'_>, old: &FieldRef<'_>, roles: &[&str], scope: Scope) {
    let role = binding.at(fields::ROLE_REF);
    validate_role(&role, roles);
    role.at(fields::NAME).require();
    validate_subjects(binding, scope);
    role.immutable(&old.at(fields::ROLE_REF));
    require_subjects(binding);
}

fn validate_role(role: &FieldRef<'_>, roles: &[&str]) {
    if role.at(fields::API_GROUP).str() != GROUP {
        role.at(fields::API_GROUP).not_supported(&[GROUP]);
    }
    if !roles.contains(&role.at(fields::KIND).str()) {
        role.at(fields::KIND).not_supported(roles);
    }
    if !role.at(fields::NAME).is_empty() {
        name::check(&role.at(fields::NAME), name::path_segment);
    }
}

fn validate_subjects(binding: &FieldRef<'_>, scope: Scope) {
    for subject in binding.at(fields::SUBJECTS).items() {
        validate_subject(&subject, scope);
    }
}

/// Reports subjects without a name.
fn require_subjects(binding: &FieldRef<'_>) {
    for subject in binding.at(fields::SUBJECTS).items() {
        subject.at(fields::NAME).require();
    }
}

fn validate_subject(subject: &FieldRef<'_>, scope: Scope) {
    match subject.at(fields::KIND).str() {
        "ServiceAccount" => validate_account(subject, scope),
        "User" | "Group" => {
            if subject.at(fields::API_GROUP).str() != GROUP {
                subject.at(fields::API_GROUP).not_supported(&[GROUP]);
            }
        }
        _ => subject.at(fields::KIND).not_supported(SUBJECT_KINDS),
    }
}

fn validate_account(subject: &FieldRef<'_>, scope: Scope) {
    if !subject.at(fields::NAME).is_empty() {
        name::check(&subject.at(fields::NAME), name::check_dns1123_subdomain);
    }
    if !subject.at(fields::API_GROUP).is_empty() {
        subject.at(fields::API_GROUP).not_supported(&[""]);
    }
    if scope == Scope::Cluster {
        subject.at(fields::NAMESPACE).require();
    }
}

fn subject_names(binding: &FieldRef<'_>, kind: &str) -> String {
    let subjects = binding.at(fields::SUBJECTS);
    let names = subjects
        .items()
        .filter(|subject| subject.at(fields::KIND).str() == kind);
    names
        .map(|subject| subject.at(fields::NAME).str())
        .collect::<Vec<_>>()
        .join(", ")
}

fn service_account_names(binding: &FieldRef<'_>) -> String {
    let subjects = binding.at(fields::SUBJECTS);
    let accounts = subjects
        .items()
        .filter(|subject| subject.at(fields::KIND).str() == "ServiceAccount");
    accounts
        .map(|account| {
            format!(
                "{}/{}",
                account.at(fields::NAMESPACE).str(),
                account.at(fields::NAME).str()
            )
        })
        .collect::<Vec<_>>()
        .join(", ")
}

//! What both kinds of bindings share: who is granted, and which role.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::GROUP;
use crate::at::At;
use crate::columns::{self, Column};
use crate::shared::name;
use crate::strategy::Scope;

const SUBJECT_KINDS: &[&str] = &["ServiceAccount", "User", "Group"];

/// The columns of bindings.
pub(super) const COLUMNS: &[Column] = &[
    columns::NAME,
    Column::text("Role", |binding, _| {
        let role = binding.at("roleRef");
        Cell::from(format!("{}/{}", role.at("kind").str(), role.at("name").str()))
    })
    .about("The role that is granted."),
    columns::AGE,
    Column::text("Users", |binding, _| Cell::from(names_of(binding, "User")))
        .wide()
        .about("The users it is granted to."),
    Column::text("Groups", |binding, _| Cell::from(names_of(binding, "Group")))
        .wide()
        .about("The groups it is granted to."),
    Column::text("ServiceAccounts", |binding, _| Cell::from(accounts_of(binding)))
        .wide()
        .about("The service accounts it is granted to."),
];

/// Fills in the group of the role and of each subject.
pub(super) fn fill(binding: &mut Tree) {
    binding.child("roleRef").fill("apiGroup", GROUP);
    for subject in binding.items_mut("subjects") {
        if matches!(subject.str_at(&["kind"]), Some("User" | "Group")) {
            subject.fill("apiGroup", GROUP);
        }
    }
}

/// Reports what is wrong with a binding, the role being one of these kinds.
pub(super) fn validate(binding: &At<'_>, roles: &[&str], scope: Scope) {
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

/// Reports a role that is another than before.
pub(super) fn validate_update(binding: &At<'_>, old: &At<'_>) {
    binding.at("roleRef").immutable(&old.at("roleRef"));
}

fn validate_subject(subject: &At<'_>, scope: Scope) {
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

fn validate_account(subject: &At<'_>, scope: Scope) {
    if !subject.at("name").is_empty() {
        name::check(&subject.at("name"), name::subdomain);
    }
    if !subject.at("apiGroup").is_empty() {
        subject.at("apiGroup").not_supported(&[""]);
    }
    if scope == Scope::Cluster {
        subject.at("namespace").require();
    }
}

fn names_of(binding: &At<'_>, kind: &str) -> String {
    let subjects = binding.at("subjects");
    let names = subjects
        .items()
        .filter(|subject| subject.at("kind").str() == kind);
    names
        .map(|subject| subject.at("name").str())
        .collect::<Vec<_>>()
        .join(", ")
}

fn accounts_of(binding: &At<'_>) -> String {
    let subjects = binding.at("subjects");
    let accounts = subjects
        .items()
        .filter(|subject| subject.at("kind").str() == "ServiceAccount");
    accounts
        .map(|account| format!("{}/{}", account.at("namespace").str(), account.at("name").str()))
        .collect::<Vec<_>>()
        .join(", ")
}

//! Validation of a CRD's group and names.

use setpoint_schema::fields;
use setpoint_strategy::custom::approval::{self, ApprovalState};
use setpoint_strategy::{FieldRef, name};

pub(super) fn validate(crd: &FieldRef<'_>) {
    let spec = crd.at(fields::SPEC);
    let (names, group) = (spec.at(fields::NAMES), spec.at(fields::GROUP));
    let name = crd.at(fields::METADATA).at(fields::NAME);
    if name.str() != format!("{}.{}", names.at(fields::PLURAL).str(), group.str()) {
        name.invalid("must be spec.names.plural+\".\"+spec.group");
    }
    validate_group(crd);
    spec.at(fields::SCOPE).require_one_of(&["Cluster", "Namespaced"]);
    if spec.at(fields::PRESERVE_UNKNOWN_FIELDS).bool() {
        spec.at(fields::PRESERVE_UNKNOWN_FIELDS).invalid(
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        );
    }
    validate_names(&names);
}

fn validate_group(crd: &FieldRef<'_>) {
    let group = crd.at(fields::SPEC).at(fields::GROUP);
    if !group.require() {
        return;
    }
    name::check(&group, name::check_dns1123_subdomain);
    if !group.str().contains('.') {
        group.invalid("should be a domain with at least one dot");
    }
    let annotation = crd
        .at(fields::METADATA)
        .at(fields::ANNOTATIONS)
        .key(approval::ANNOTATION);
    match approval::approval(group.str(), annotation.str()) {
        Some((ApprovalState::Missing, message)) => annotation.required(&message),
        Some((ApprovalState::Invalid, message)) => annotation.invalid(&message),
        Some((ApprovalState::Approved | ApprovalState::Bypassed, _)) | None => {}
    }
}

fn validate_names(names: &FieldRef<'_>) {
    if names.at(fields::PLURAL).require() {
        name::check(&names.at(fields::PLURAL), name::service);
    }
    if !names.at(fields::SINGULAR).is_empty() {
        name::check(&names.at(fields::SINGULAR), name::service);
    }
    for field in [fields::KIND, fields::LIST_KIND] {
        let at = names.at(field);
        if at.is_empty() {
            at.required("");
            continue;
        }
        for violation in name::service(&at.str().to_lowercase()) {
            at.invalid(&format!(
                "may have mixed case, but should otherwise match: {violation}"
            ));
        }
    }
    for list in [fields::SHORT_NAMES, fields::CATEGORIES] {
        for item in names.at(list).items() {
            name::check(&item, name::service);
        }
    }
    let list_kind = names.at(fields::LIST_KIND);
    if !list_kind.is_empty() && list_kind.str() == names.at(fields::KIND).str() {
        list_kind.invalid("kind and listKind may not be the same");
    }
}

pub(super) fn validate_update(crd: &FieldRef<'_>, old: &FieldRef<'_>) {
    let (new, old) = (crd.at(fields::SPEC), old.at(fields::SPEC));
    new.at(fields::GROUP).immutable(&old.at(fields::GROUP));
    new.at(fields::NAMES)
        .at(fields::PLURAL)
        .immutable(&old.at(fields::NAMES).at(fields::PLURAL));
    new.at(fields::SCOPE).immutable(&old.at(fields::SCOPE));
    new.at(fields::NAMES)
        .at(fields::KIND)
        .immutable(&old.at(fields::NAMES).at(fields::KIND));
}

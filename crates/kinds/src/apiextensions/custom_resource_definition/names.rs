//! Validation of a CRD's group and names.

use setpoint_schema::fields;
use setpoint_strategy::custom::approval::{self, ApprovalState};
use setpoint_strategy::{FieldRef, name};

/// Validates that the object is named after its resource.
pub(super) fn validate_object_name(crd: &FieldRef<'_>) {
    let spec = crd.at(fields::SPEC);
    let (plural, group) = (spec.at(fields::NAMES).at(fields::PLURAL), spec.at(fields::GROUP));
    let name = crd.at(fields::METADATA).at(fields::NAME);
    if name.str() != format!("{}.{}", plural.str(), group.str()) {
        name.invalid("must be spec.names.plural+\".\"+spec.group");
    }
}

pub(super) fn validate_group(group: &FieldRef<'_>) {
    if !group.require() {
        return;
    }
    let violations = name::check_dns1123_subdomain(group.str());
    if !violations.is_empty() {
        group.invalid(&violations.join(","));
    } else if !group.str().contains('.') {
        group.invalid("should be a domain with at least one dot");
    }
}

/// Validates that a CRD in a group of the Kubernetes community is approved. An update may keep the state.
pub(super) fn validate_approval(crd: &FieldRef<'_>, old: Option<&FieldRef<'_>>) {
    let annotation = |crd: &FieldRef<'_>| {
        let annotations = crd.at(fields::METADATA).at(fields::ANNOTATIONS);
        annotations.key(approval::ANNOTATION).str().to_owned()
    };
    let group = crd.at(fields::SPEC).at(fields::GROUP).str();
    let Some((state, message)) = approval::approval(group, &annotation(crd)) else {
        return;
    };
    let old_state = old.and_then(|old| approval::approval(group, &annotation(old)));
    if old_state.is_some_and(|(old_state, _)| old_state == state) {
        return;
    }
    let field = crd
        .at(fields::METADATA)
        .at(fields::ANNOTATIONS)
        .key(approval::ANNOTATION);
    match state {
        ApprovalState::Missing => field.required(&message),
        ApprovalState::Invalid => field.invalid(&message),
        ApprovalState::Approved | ApprovalState::Bypassed => {}
    }
}

/// Validates that the spec has all names.
pub(super) fn validate_present(names: &FieldRef<'_>) {
    for field in [fields::PLURAL, fields::SINGULAR, fields::KIND, fields::LIST_KIND] {
        names.at(field).require();
    }
}

/// Validates the form of the names that are set.
pub(super) fn validate(names: &FieldRef<'_>) {
    for field in [fields::PLURAL, fields::SINGULAR] {
        let at = names.at(field);
        if !at.is_empty() {
            report(&at, "", at.str());
        }
    }
    for field in [fields::KIND, fields::LIST_KIND] {
        let at = names.at(field);
        if !at.is_empty() {
            let prefix = "may have mixed case, but should otherwise match: ";
            report(&at, prefix, &at.str().to_lowercase());
        }
    }
    for item in names.at(fields::SHORT_NAMES).items() {
        report(&item, "", item.str());
    }
    let list_kind = names.at(fields::LIST_KIND);
    if !list_kind.is_empty() && list_kind.str() == names.at(fields::KIND).str() {
        list_kind.invalid("kind and listKind may not be the same");
    }
    for item in names.at(fields::CATEGORIES).items() {
        report(&item, "", item.str());
    }
}

fn report(field: &FieldRef<'_>, prefix: &str, label: &str) {
    let violations = name::service(label);
    if !violations.is_empty() {
        field.invalid(&format!("{prefix}{}", violations.join(",")));
    }
}

/// Validates the changes of an update. Scope and kind can change until the CRD is established.
pub(super) fn validate_update(spec: &FieldRef<'_>, old: &FieldRef<'_>, are_names_immutable: bool) {
    let (names, old_names) = (spec.at(fields::NAMES), old.at(fields::NAMES));
    if are_names_immutable {
        spec.at(fields::SCOPE).immutable(&old.at(fields::SCOPE));
        names.at(fields::KIND).immutable(&old_names.at(fields::KIND));
    }
    spec.at(fields::GROUP).immutable(&old.at(fields::GROUP));
    names.at(fields::PLURAL).immutable(&old_names.at(fields::PLURAL));
}

//! Validation of a CRD's group and names.

use setpoint_api::field::DisplayJson;

use crate::field::FieldRef;
use crate::shared::name;

const APPROVAL: &str = "api-approved.kubernetes.io";

pub(super) fn validate(crd: &FieldRef<'_>) {
    let spec = crd.at("spec");
    let (names, group) = (spec.at("names"), spec.at("group"));
    let name = crd.at("metadata").at("name");
    if name.str() != format!("{}.{}", names.at("plural").str(), group.str()) {
        name.invalid("must be spec.names.plural+\".\"+spec.group");
    }
    validate_group(crd);
    spec.at("scope").require_one_of(&["Cluster", "Namespaced"]);
    if spec.at("preserveUnknownFields").bool() {
        spec.at("preserveUnknownFields").invalid(
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        );
    }
    validate_names(&names);
}

fn validate_group(crd: &FieldRef<'_>) {
    let group = crd.at("spec").at("group");
    if !group.require() {
        return;
    }
    name::check(&group, name::check_dns1123_subdomain);
    if !group.str().contains('.') {
        group.invalid("should be a domain with at least one dot");
    }
    let protected = ["k8s.io", "kubernetes.io"];
    let is_protected = |suffix: &&str| group.str() == *suffix || group.str().ends_with(&format!(".{suffix}"));
    let approval = crd.at("metadata").at("annotations").key(APPROVAL);
    if protected.iter().any(is_protected) && approval.is_empty() {
        approval.required(&format!(
            "protected groups must have approval annotation {}, see https://github.com/kubernetes/enhancements/pull/1111",
            APPROVAL.display_json()
        ));
    }
}

fn validate_names(names: &FieldRef<'_>) {
    if names.at("plural").require() {
        name::check(&names.at("plural"), name::service);
    }
    if !names.at("singular").is_empty() {
        name::check(&names.at("singular"), name::service);
    }
    for field in ["kind", "listKind"] {
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
    for list in ["shortNames", "categories"] {
        for item in names.at(list).items() {
            name::check(&item, name::service);
        }
    }
    let list_kind = names.at("listKind");
    if !list_kind.is_empty() && list_kind.str() == names.at("kind").str() {
        list_kind.invalid("kind and listKind may not be the same");
    }
}

pub(super) fn validate_update(crd: &FieldRef<'_>, old: &FieldRef<'_>) {
    let (new, old) = (crd.at("spec"), old.at("spec"));
    new.at("group").immutable(&old.at("group"));
    new.at("names")
        .at("plural")
        .immutable(&old.at("names").at("plural"));
    new.at("scope").immutable(&old.at("scope"));
    new.at("names").at("kind").immutable(&old.at("names").at("kind"));
}

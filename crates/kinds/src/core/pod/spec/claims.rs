//! `resourceClaims`: the device claims of a pod.

use std::collections::BTreeSet;

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, name};

use crate::core::pod::MIRROR;

use super::PodContext;

/// The names of the pod's resource claims.
pub(super) fn names<'a>(spec: &FieldRef<'a>) -> BTreeSet<&'a str> {
    let claims = spec.at(fields::RESOURCE_CLAIMS);
    let names = claims.items().map(|claim| claim.at(fields::NAME).str());
    names.filter(|name| !name.is_empty()).collect()
}

/// Validates resource claims.
pub(super) fn validate(claims: &FieldRef<'_>, pod_context: &PodContext<'_>) {
    let mut names = BTreeSet::new();
    let mirror = pod_context
        .pod
        .as_ref()
        .is_some_and(|meta| meta.at(fields::ANNOTATIONS).key(MIRROR).is_set());
    for claim in claims.items() {
        if mirror {
            claims
                .errors()
                .root()
                .forbidden("static pods do not support resource claims");
        } else {
            validate_one(&claim, &mut names);
        }
    }
}

fn validate_one<'a>(claim: &FieldRef<'a>, names: &mut BTreeSet<&'a str>) {
    let name = claim.at(fields::NAME);
    if name.require() {
        if names.insert(name.str()) {
            name::check(&name, name::check_dns1123_label);
        } else {
            name.duplicate();
        }
    }
    let (object, template) = (
        claim.at(fields::RESOURCE_CLAIM_NAME),
        claim.at(fields::RESOURCE_CLAIM_TEMPLATE_NAME),
    );
    if object.is_set() && template.is_set() {
        let detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
        claim.invalid(detail);
    }
    if !object.is_set() && !template.is_set() {
        let detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
        claim.invalid(detail);
    }
    for reference in [object, template].iter().filter(|reference| reference.is_set()) {
        name::check(reference, name::check_dns1123_subdomain);
    }
}

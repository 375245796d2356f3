//! The devices a pod claims.

use std::collections::BTreeSet;

use crate::at::At;
use crate::core::pod::MIRROR;
use crate::shared::name;

use super::Around;

/// The names that the pod gives to its claims.
pub(super) fn names<'a>(spec: &At<'a>) -> BTreeSet<&'a str> {
    let claims = spec.at("resourceClaims");
    let names = claims.items().map(|claim| claim.at("name").str());
    names.filter(|name| !name.is_empty()).collect()
}

/// Reports what is wrong with claims.
pub(super) fn validate(claims: &At<'_>, around: &Around<'_>) {
    let mut names = BTreeSet::new();
    let mirror = around
        .pod
        .as_ref()
        .is_some_and(|meta| meta.at("annotations").key(MIRROR).is_set());
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

fn validate_one<'a>(claim: &At<'a>, names: &mut BTreeSet<&'a str>) {
    let own = claim.at("name");
    if own.require() {
        if names.insert(own.str()) {
            name::check(&own, name::label);
        } else {
            own.duplicate();
        }
    }
    let (object, template) = (
        claim.at("resourceClaimName"),
        claim.at("resourceClaimTemplateName"),
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
        name::check(reference, name::subdomain);
    }
}

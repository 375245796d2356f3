//! The name check of an IPAddress's owner. The IPAddress names the Service as its parent, and is rejected if that name is
//! invalid. This comes before the Service's validation, so the caller gets this error first.

use setpoint_api::field::Errors;
use setpoint_api::{Gvk, Status};
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::fields;
use setpoint_strategy::meta;
use setpoint_strategy::name;

/// Rejects the address if the name of its owner is invalid. `requested` are the addresses in the request.
pub(super) fn check(review: &Review<'_>, address: &str, requested: &[String]) -> Result<(), Status> {
    if review.operation != Operation::Create || review.dry_run || has_generate_name(review) {
        return Ok(());
    }
    let errors = Errors::default();
    let path = errors.at(fields::SPEC).at(fields::PARENT_REF).at(fields::NAME);
    match review.name {
        "" => path.required(""),
        own => name::report(own, name::path_segment(own), &path),
    }
    if errors.is_empty() {
        return Ok(());
    }
    let kind = Gvk::new("networking.k8s.io", "v1", "IPAddress");
    let why = Status::invalid(&kind, address, &errors.into_vec()).message;
    let (requested, what) = match requested.iter().any(|one| one == address) {
        true => (requested.to_vec(), format!(" {address}")),
        false => (vec![String::new()], String::new()),
    };
    let errors = Errors::default();
    let path = errors.at(fields::SPEC).at(fields::CLUSTER_IPS);
    path.invalid(requested, &format!("failed to allocate IP{what}: {why}"));
    Err(Status::invalid(&review.kind.gvk, review.name, &errors.into_vec()))
}

/// Whether the name of the Service will be generated.
fn has_generate_name(review: &Review<'_>) -> bool {
    let service = review.object.as_deref();
    review.name.is_empty() && service.is_some_and(|service| !meta::str(service, "generateName").is_empty())
}

//! An address is an object that names its owner, and is refused for an owner that cannot be named. This comes before the
//! service's own rules, so it is what the caller hears of first.

use setpoint_api::field::Errors;
use setpoint_api::{Gvk, Status};
use setpoint_kinds::meta;
use setpoint_kinds::shared::name;
use setpoint_registry::{Operation, Review};

/// Refuses the address if its owner cannot be named. `asked` are the addresses that the service asks for.
pub(super) fn check(review: &Review<'_>, address: &str, asked: &[String]) -> Result<(), Status> {
    if review.operation != Operation::Create || review.dry_run || is_named_later(review) {
        return Ok(());
    }
    let errors = Errors::default();
    let place = errors.at("spec").at("parentRef").at("name");
    match review.name {
        "" => place.required(""),
        own => name::report(own, name::path_segment(own), &place),
    }
    if errors.is_empty() {
        return Ok(());
    }
    let kind = Gvk::new("networking.k8s.io", "v1", "IPAddress");
    let why = Status::invalid(&kind, address, &errors.into_vec()).message;
    let (asked, what) = match asked.iter().any(|one| one == address) {
        true => (asked.to_vec(), format!(" {address}")),
        false => (vec![String::new()], String::new()),
    };
    let errors = Errors::default();
    let place = errors.at("spec").at("clusterIPs");
    place.invalid(asked, &format!("failed to allocate IP{what}: {why}"));
    Err(Status::invalid(&review.kind.gvk, review.name, &errors.into_vec()))
}

/// Whether the service has no name yet, but a beginning of one.
fn is_named_later(review: &Review<'_>) -> bool {
    let service = review.object.as_deref();
    review.name.is_empty() && service.is_some_and(|service| !meta::str(service, "generateName").is_empty())
}

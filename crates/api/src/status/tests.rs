//! The messages of statuses are Kubernetes'.

use super::*;
use crate::field::Errors;
use crate::version::ResourceVersion;

fn sets() -> GroupResource {
    GroupResource::new("apps", "replicasets")
}

#[track_caller]
fn check(status: &Status, code: u16, reason: &str, message: &str) {
    assert_eq!(
        (status.code, status.reason.as_str(), status.message.as_str()),
        (code, reason, message)
    );
}

#[test]
fn a_missing_object_is_named_with_its_group() {
    let status = Status::not_found(&sets(), "web");
    check(&status, 404, "NotFound", r#"replicasets.apps "web" not found"#);
    let details = status.details.unwrap();
    assert_eq!(
        (
            details.name.as_str(),
            details.group.as_str(),
            details.kind.as_str()
        ),
        ("web", "apps", "replicasets")
    );
}

/// OC1: the message that kubectl and client-go match.
#[test]
fn a_stale_write_is_a_conflict() {
    check(
        &Status::modified(&GroupResource::new("", "configmaps"), "s1"),
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"s1\": the object has been modified; please apply your changes to \
         the latest version and try again",
    );
}

#[test]
fn several_errors_are_listed_in_brackets_without_duplicates() {
    let errors = Errors::default();
    errors.at("metadata").at("name").invalid("A_b", "bad");
    errors.at("spec").at("containers").required("");
    errors.at("spec").at("containers").required("");
    let status = Status::invalid(&Gvk::new("", "v1", "Pod"), "A_b", &errors.into_vec());
    check(
        &status,
        422,
        "Invalid",
        r#"Pod "A_b" is invalid: [metadata.name: Invalid value: "A_b": bad, spec.containers: Required value]"#,
    );
    let causes = status.details.unwrap().causes;
    assert_eq!(causes[0].reason, "FieldValueInvalid");
    assert_eq!(causes[1].field, "spec.containers");
}

#[test]
fn a_single_error_has_no_brackets_and_the_kind_has_its_group() {
    let errors = Errors::default();
    errors
        .at("spec")
        .at("replicas")
        .invalid(-1, "must be greater than or equal to 0");
    let status = Status::invalid(&Gvk::new("apps", "v1", "ReplicaSet"), "web", &errors.into_vec());
    check(
        &status,
        422,
        "Invalid",
        r#"ReplicaSet.apps "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"#,
    );
}

#[test]
fn the_json_starts_with_its_type_and_omits_empty_fields() {
    let json = String::from_utf8(Status::unauthorized().to_json()).unwrap();
    assert_eq!(
        json,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#
    );
}

#[test]
fn a_read_of_a_future_version_may_be_retried() {
    let status = Status::too_large_resource_version(ResourceVersion(9), ResourceVersion(3));
    check(
        &status,
        504,
        "Timeout",
        "Timeout: Too large resource version: 9, current: 3",
    );
    assert_eq!(status.details.unwrap().retry_after_seconds, 1);
}

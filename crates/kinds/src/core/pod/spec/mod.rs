//! The rules of pod specs, in pods and in templates alike.

pub(crate) mod defaults;

mod containers;

pub(crate) mod update;

use crate::at::At;
use crate::shared::name;

const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

/// Reports what is wrong with a spec.
pub(crate) fn validate(spec: &At<'_>) {
    containers::validate(spec);
    validate_policies(spec);
    validate_names(spec);
    let deadline = spec.at("activeDeadlineSeconds");
    if deadline.is_set() {
        deadline.within(1, i32::MAX.into());
    }
    spec.at("terminationGracePeriodSeconds").not_negative();
}

fn validate_policies(spec: &At<'_>) {
    spec.at("restartPolicy").require_one_of(RESTART_POLICIES);
    spec.at("dnsPolicy").require_one_of(DNS_POLICIES);
    if spec.at("dnsPolicy").str() == "None" && !spec.at("dnsConfig").is_set() {
        spec.at("dnsConfig")
            .required("must provide `dnsConfig` when `dnsPolicy` is None");
    }
}

fn validate_names(spec: &At<'_>) {
    for (field, form) in [
        ("nodeName", name::subdomain as fn(&str) -> name::Complaints),
        ("serviceAccountName", name::subdomain),
        ("hostname", name::label),
        ("subdomain", name::label),
    ] {
        if !spec.at(field).is_empty() {
            name::check(&spec.at(field), form);
        }
    }
    crate::meta::validate_labels(&spec.at("nodeSelector"));
}

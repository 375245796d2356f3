//! The rules of pod specs, in pods and in templates alike.

pub(crate) mod defaults;

mod containers;

pub(crate) mod update;

use k8s_openapi::api::core::v1::PodSpec;

use setpoint_api::field::Errors;

use crate::shared::name;

const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

/// Reports what is wrong with a spec.
pub(crate) fn validate(spec: &PodSpec, errors: &Errors<'_>) {
    containers::validate(spec, errors);
    validate_policies(spec, errors);
    validate_names(spec, errors);
    if let Some(seconds) = spec.active_deadline_seconds
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        errors
            .at("activeDeadlineSeconds")
            .invalid(seconds, "must be between 1 and 2147483647, inclusive");
    }
    if let Some(seconds) = spec
        .termination_grace_period_seconds
        .filter(|seconds| *seconds < 0)
    {
        errors
            .at("terminationGracePeriodSeconds")
            .invalid(seconds, "must be greater than or equal to 0");
    }
}

fn validate_policies(spec: &PodSpec, errors: &Errors<'_>) {
    one_of(
        spec.restart_policy.as_deref(),
        RESTART_POLICIES,
        &errors.at("restartPolicy"),
    );
    one_of(spec.dns_policy.as_deref(), DNS_POLICIES, &errors.at("dnsPolicy"));
    if spec.dns_policy.as_deref() == Some("None") && spec.dns_config.is_none() {
        errors
            .at("dnsConfig")
            .required("must provide `dnsConfig` when `dnsPolicy` is None");
    }
}

fn validate_names(spec: &PodSpec, errors: &Errors<'_>) {
    let optional = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if let Some(node) = optional(&spec.node_name) {
        name::report(&node, name::subdomain(&node), &errors.at("nodeName"));
    }
    if let Some(account) = optional(&spec.service_account_name) {
        name::report(
            &account,
            name::subdomain(&account),
            &errors.at("serviceAccountName"),
        );
    }
    if let Some(hostname) = optional(&spec.hostname) {
        name::report(&hostname, name::label(&hostname), &errors.at("hostname"));
    }
    if let Some(subdomain) = optional(&spec.subdomain) {
        name::report(&subdomain, name::label(&subdomain), &errors.at("subdomain"));
    }
    for (label, value) in spec.node_selector.iter().flatten() {
        name::report(label, name::qualified(label), &errors.at("nodeSelector"));
        name::report(value, name::label_value(value), &errors.at("nodeSelector"));
    }
}

/// Reports a value that is none of these; an absent one is required.
fn one_of(value: Option<&str>, supported: &[&str], errors: &Errors<'_>) {
    match value {
        None | Some("") => errors.required(""),
        Some(value) if !supported.contains(&value) => errors.not_supported(value, supported),
        Some(_) => {}
    }
}

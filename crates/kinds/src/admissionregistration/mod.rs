//! The `admissionregistration.k8s.io` group: webhooks and CEL policies that run before a write.
//!
//! Expressions are stored as text; [`expressions`] compiles them, for validation here and for admission.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind, Rules};

pub mod expressions;
pub mod mutating_policy;
pub mod mutating_policy_binding;
pub mod mutating_webhooks;
pub mod validating_policy;
pub mod validating_policy_binding;
pub mod validating_webhooks;

mod binding;
pub(crate) mod client_config;
mod conditions;
mod match_resources;
mod policy;
mod rule;
mod webhook;

const GROUP: &str = "admissionregistration.k8s.io";
const CATEGORIES: &[&str] = &["api-extensions"];
const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
const REINVOCATIONS: &[&str] = &["IfNeeded", "Never"];

/// All kinds of this group track generations, and their updates need a resource version.
const RULES: Rules = Rules::DEFAULT
    .tracks_generation()
    .no_unconditional_update()
    .unqualified_finalizers();

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(BuiltinKind::<mutating_policy::MutatingAdmissionPolicy>::new()),
        Arc::new(BuiltinKind::<
            mutating_policy_binding::MutatingAdmissionPolicyBinding,
        >::new()),
        Arc::new(BuiltinKind::<mutating_webhooks::MutatingWebhookConfiguration>::new()),
        Arc::new(BuiltinKind::<validating_policy::ValidatingAdmissionPolicy>::new()),
        Arc::new(BuiltinKind::<
            validating_policy_binding::ValidatingAdmissionPolicyBinding,
        >::new()),
        Arc::new(BuiltinKind::<validating_webhooks::ValidatingWebhookConfiguration>::new()),
    ]
}

//! Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy.
//!
//! A policy has CEL expressions, its bindings choose requests and parameters for it. [`matching_policies`] finds the
//! policies that concern a review; [`validating`] and [`mutating`] evaluate their expressions. A policy is compiled once
//! for each of its versions: the compiled form is a view of the stored object.
//!
//! The rules are those of `staging/src/k8s.io/apiserver/pkg/admission/plugin/policy` in Kubernetes.

pub(crate) mod mutating;
pub(crate) mod validating;

mod bindings;
mod compile;
mod objects;
mod params;

use std::sync::Arc;

use futures_util::FutureExt;
use serde::Deserialize;
use setpoint_api::{GroupResource, Status};
use setpoint_registry_api::Review;
use setpoint_strategy::Kind;

use crate::matching::MatchCriteria;
use compile::PolicyParts;
use params::{ParamKind, ParamRef};

const GROUP: &str = "admissionregistration.k8s.io";

/// Resources that no policy concerns: policies themselves, which could not be repaired otherwise.
const POLICY_RESOURCES: [&str; 4] = [
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// Reviews of access and identity, without which the cluster stops working.
const REVIEWS: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// What the request does if a policy cannot be evaluated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
enum FailurePolicy {
    #[default]
    Fail,
    Ignore,
}

/// What every policy has besides its own expressions.
trait Policy {
    fn parts(&self) -> &PolicyParts;

    fn name(&self) -> &str {
        &self.parts().name
    }

    fn criteria(&self) -> &MatchCriteria {
        &self.parts().criteria
    }

    fn param_kind(&self) -> Option<&ParamKind> {
        self.parts().param_kind.as_ref()
    }

    fn failure_policy(&self) -> FailurePolicy {
        self.parts().failure_policy
    }
}

/// What every binding has.
trait Binding {
    fn name(&self) -> &str;
    fn criteria(&self) -> Option<&MatchCriteria>;
    fn param_ref(&self) -> Option<&ParamRef>;
}

/// Whether policies never concern the resource of a review.
fn is_exempt(review: &Review<'_>) -> bool {
    let gvr = &review.kind.gvr;
    let is_review = || {
        REVIEWS
            .iter()
            .any(|(group, resource)| gvr.group == *group && gvr.resource == *resource)
    };
    (gvr.group == GROUP && POLICY_RESOURCES.contains(&gvr.resource.as_str())) || is_review()
}

/// Whether only a webhook can convert the object under review, so that policies may have to wait for it.
fn has_conversion_webhook(review: &Review<'_>) -> bool {
    let has_webhook = |kind: &Arc<dyn Kind>| kind.webhook_conversion().is_some();
    review.kind.is_custom
        && review
            .reader
            .served_kinds()
            .find(&review.kind.gvr)
            .is_some_and(has_webhook)
}

/// The result of policies that have no conversion webhook to wait for.
fn without_waiting(policies: impl Future<Output = Result<(), Status>>) -> Result<(), Status> {
    let waits = || Err(Status::internal("a policy waits for a conversion webhook"));
    policies.now_or_never().unwrap_or_else(waits)
}

fn resource(name: &str) -> GroupResource {
    GroupResource::new(GROUP, name)
}

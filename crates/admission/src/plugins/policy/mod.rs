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

use serde::Deserialize;
use setpoint_api::GroupResource;
use setpoint_registry_api::Review;

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

fn resource(name: &str) -> GroupResource {
    GroupResource::new(GROUP, name)
}

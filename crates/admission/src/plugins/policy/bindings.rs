//! The policies that concern a review, each with its bindings.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use setpoint_api::{GroupResource, Key, Stored};
use setpoint_registry_api::Review;

use super::params::{self, Param};
use super::{Binding, Policy};
use crate::matching::MatchedResource;
use crate::review::view;

/// The resources of policies and of their bindings.
pub(super) struct PolicyResources {
    pub(super) policies: GroupResource,
    pub(super) bindings: GroupResource,
}

/// A policy with its bindings, in the order of their names.
#[derive(Debug)]
pub(super) struct BoundPolicy<P, B> {
    pub(super) policy: Arc<P>,
    pub(super) bindings: Vec<Arc<B>>,
}

/// A policy with a binding and parameters that concern a review.
#[derive(Debug)]
pub(super) struct Invocation<P, B> {
    pub(super) policy: Arc<P>,
    pub(super) binding: Arc<B>,
    pub(super) param: Option<Param>,
    pub(super) matched: MatchedResource,
}

/// A policy or a binding that cannot be used for a review, with the reason.
#[derive(Debug)]
pub(super) struct ConfigurationError<P, B> {
    pub(super) policy: Arc<P>,
    pub(super) binding: Option<Arc<B>>,
    pub(super) message: String,
}

/// What concerns a review: invocations and configuration errors, in the order of policies and bindings.
pub(super) type Matches<P, B> = Vec<Result<Invocation<P, B>, ConfigurationError<P, B>>>;

/// Whether there is a binding of any policy.
pub(super) fn has_bindings(review: &Review<'_>, resources: &PolicyResources) -> bool {
    let bindings = review.caches().cache(&resources.bindings);
    bindings.is_some_and(|bindings| !bindings.snapshot().is_empty())
}

/// All policies that have bindings, in the order of their names. Without bindings this costs next to nothing.
pub(super) fn bound_policies<P, B>(
    review: &Review<'_>,
    resources: &PolicyResources,
    policy_name: impl Fn(&B) -> &str,
) -> Vec<BoundPolicy<P, B>>
where
    P: DeserializeOwned + Default + Send + Sync + 'static,
    B: DeserializeOwned + Default + Send + Sync + 'static,
{
    let caches = review.caches();
    let Some(bindings) = caches.cache(&resources.bindings).map(|cache| cache.snapshot()) else {
        return Vec::new();
    };
    if bindings.is_empty() {
        return Vec::new();
    }
    let Some(policies) = caches.cache(&resources.policies).map(|cache| cache.snapshot()) else {
        return Vec::new();
    };
    let mut by_policy: BTreeMap<String, Vec<Arc<B>>> = BTreeMap::new();
    for binding in bindings.iter().map(|binding| view::<B>(binding)) {
        by_policy
            .entry(policy_name(&binding).to_owned())
            .or_default()
            .push(binding);
    }
    let bound = |(name, bindings): (String, Vec<Arc<B>>)| {
        let policy: &Arc<Stored> = policies.find(&Key::new("", &name))?;
        Some(BoundPolicy {
            policy: view(policy),
            bindings,
        })
    };
    by_policy.into_iter().filter_map(bound).collect()
}

/// The invocations of policies that concern a review.
pub(super) fn matching_policies<P: Policy, B: Binding>(
    review: &Review<'_>,
    policies: Vec<BoundPolicy<P, B>>,
) -> Matches<P, B> {
    let mut matches = Vec::new();
    for bound in policies {
        let failed = |message: String| ConfigurationError {
            policy: bound.policy.clone(),
            binding: None,
            message: format!("failed to configure policy: {message}"),
        };
        let matched = match bound.policy.criteria().matches(review) {
            Ok(Some(matched)) => matched,
            Ok(None) => continue,
            Err(status) => {
                matches.push(Err(failed(status.message)));
                continue;
            }
        };
        if let Err(message) = params::find_kind(review, bound.policy.param_kind()) {
            matches.push(Err(failed(message)));
            continue;
        }
        for binding in bound.bindings {
            invoke(review, &bound.policy, binding, &matched, &mut matches);
        }
    }
    matches
}

/// Adds the invocations of one binding: one for each of its parameters.
fn invoke<P: Policy, B: Binding>(
    review: &Review<'_>,
    policy: &Arc<P>,
    binding: Arc<B>,
    matched: &MatchedResource,
    matches: &mut Matches<P, B>,
) {
    let is_matching = binding.criteria().map_or(Ok(true), |criteria| {
        criteria.matches(review).map(|matched| matched.is_some())
    });
    let params = match is_matching {
        Ok(false) => return,
        Ok(true) => params::collect(review, policy.param_kind(), binding.param_ref()),
        Err(status) => Err(status.message),
    };
    match params {
        Ok(params) => matches.extend(params.into_iter().map(|param| {
            Ok(Invocation {
                policy: policy.clone(),
                binding: binding.clone(),
                param,
                matched: matched.clone(),
            })
        })),
        Err(message) => matches.push(Err(ConfigurationError {
            policy: policy.clone(),
            binding: Some(binding),
            message: format!("failed to configure binding: {message}"),
        })),
    }
}

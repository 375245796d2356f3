//! Matching: which requests a webhook or an admission policy concerns.
//!
//! [`MatchCriteria`] are rules, selectors and a match policy as webhook configurations and admission policies write them;
//! [`MatchCriteria::matches`] compares a review with them. The result names the kind and the resource to pass on, which
//! differ from those of the request where a rule names an equivalent resource: another version of the same objects.
//!
//! The rules are those of `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/predicates` and
//! `.../plugin/policy/matching` in Kubernetes.

mod equivalents;
mod rule;
mod selector;

use serde::Deserialize;
use setpoint_api::{Gvk, Gvr, Status};
use setpoint_registry_api::Review;

pub(crate) use rule::{Rule, operation_name};
use selector::Selector;
pub(crate) use selector::{find_namespace, namespace_of};

/// The requests that a webhook or an admission policy concerns.
///
/// It is read from a webhook, or from the `matchConstraints` and `matchResources` of policies and bindings.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MatchCriteria {
    #[serde(alias = "resourceRules", deserialize_with = "rule::nullable_list")]
    pub(crate) rules: Vec<Rule>,
    #[serde(rename = "excludeResourceRules", deserialize_with = "rule::nullable_list")]
    pub(crate) exclude_rules: Vec<Rule>,
    pub(crate) match_policy: MatchPolicy,
    namespace_selector: Selector,
    object_selector: Selector,
}

/// Whether rules also match requests for other versions of the resources they name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum MatchPolicy {
    #[default]
    Exact,
    Equivalent,
}

/// The kind and the resource of a request, as the matching rule names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MatchedResource {
    pub(crate) kind: Gvk,
    pub(crate) resource: Gvr,
}

impl MatchCriteria {
    /// The kind and the resource to pass on; none if the criteria do not concern the request. Criteria without rules
    /// concern every resource, as in policy bindings.
    ///
    /// A namespace that is not found, or an invalid selector, is an error only if the rules match.
    pub(crate) fn matches(&self, review: &Review<'_>) -> Result<Option<MatchedResource>, Status> {
        let in_namespace = self.namespace_selector.selects_namespace(review);
        if matches!(in_namespace, Ok(false)) {
            return Ok(None);
        }
        let is_selected = self.object_selector.selects_object(review);
        if matches!(is_selected, Ok(false)) {
            return Ok(None);
        }
        if self.find_rule(&self.exclude_rules, review).is_some() {
            return Ok(None);
        }
        let matched = match self.rules.is_empty() {
            true => Some(MatchedResource::requested(review)),
            false => self.find_rule(&self.rules, review),
        };
        if matched.is_some() {
            in_namespace?;
            is_selected?;
        }
        Ok(matched)
    }

    /// The resource that one of the rules names: that of the request, or else an equivalent one.
    fn find_rule(&self, rules: &[Rule], review: &Review<'_>) -> Option<MatchedResource> {
        if rules.iter().any(|rule| rule.matches(review, &review.kind.gvr)) {
            return Some(MatchedResource::requested(review));
        }
        if rules.is_empty() || self.match_policy == MatchPolicy::Exact {
            return None;
        }
        let equivalents = equivalents::equivalents(review);
        let named = |rule: &Rule| {
            let mut equivalents = equivalents.iter();
            equivalents
                .find(|one| rule.matches(review, &one.resource))
                .cloned()
        };
        rules.iter().find_map(named)
    }
}

impl MatchedResource {
    /// The kind and the resource of the request itself.
    fn requested(review: &Review<'_>) -> Self {
        Self {
            kind: review.object_kind(),
            resource: review.kind.gvr.clone(),
        }
    }
}

#[cfg(test)]
mod tests;

//! Which rule applies to a resource: the exact one, else that of its group, else that of all resources.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::kms::KmsProvider;
use crate::provider::{Provider, Providers};

/// A resource in the configuration: `secrets`, `deployments.apps`, `*.apps`, `*.` for the core group, `*.*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ResourcePattern {
    pub(crate) resource: String,
    pub(crate) group: String,
}

/// The providers of every configured resource.
#[derive(Debug, Default)]
pub(crate) struct ResourceRules {
    rules: HashMap<ResourcePattern, Arc<Providers>>,
}

impl ResourcePattern {
    pub(crate) fn parse(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        Self::new(resource, group)
    }

    fn new(resource: &str, group: &str) -> Self {
        Self {
            resource: resource.to_owned(),
            group: group.to_owned(),
        }
    }

    /// Whether it is `*.*`.
    pub(crate) fn is_any(&self) -> bool {
        self.resource == "*" && self.group == "*"
    }
}

impl fmt::Display for ResourcePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.resource.as_str(), self.group.as_str()) {
            ("*", "") => f.write_str("*."),
            (resource, "") => f.write_str(resource),
            (resource, group) => write!(f, "{resource}.{group}"),
        }
    }
}

impl ResourceRules {
    /// Adds a rule. Fails if an earlier one masks it. Providers of an equal pattern are appended.
    pub(crate) fn add(&mut self, pattern: &str, providers: &Arc<Providers>) -> Result<(), String> {
        let pattern = ResourcePattern::parse(pattern);
        for mask in [
            ResourcePattern::new("*", &pattern.group),
            ResourcePattern::new("*", "*"),
        ] {
            if self.rules.contains_key(&mask) {
                let (pattern, mask) = (pattern.to_string(), mask.to_string());
                return Err(format!("resource {pattern:?} is masked by earlier rule {mask:?}"));
            }
        }
        match self.rules.get_mut(&pattern) {
            Some(existing) => *existing = Arc::new(existing.joined(providers)),
            None => {
                self.rules.insert(pattern, providers.clone());
            }
        }
        Ok(())
    }

    /// The providers of a resource, given as `resource` or `resource.group`; `None` if it is not encrypted.
    pub(crate) fn find(&self, resource: &str) -> Option<&Arc<Providers>> {
        let exact = ResourcePattern::parse(resource);
        let of_group = ResourcePattern::new("*", &exact.group);
        let any = ResourcePattern::new("*", "*");
        let mut patterns = [&exact, &of_group, &any].into_iter();
        patterns.find_map(|pattern| self.rules.get(pattern))
    }

    /// The KMS plugins, each once, however many resources share it.
    pub(crate) fn kms(&self) -> impl Iterator<Item = &KmsProvider> {
        let mut known = HashSet::new();
        let providers = self.rules.values().flat_map(|providers| providers.iter());
        let providers = providers.filter(move |provider| known.insert(Arc::as_ptr(provider)));
        providers.filter_map(|provider| match &**provider {
            Provider::Kms(provider) => Some(&**provider),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rules: &[&str], resource: &str, expected: Option<usize>) {
        let mut added = ResourceRules::default();
        let providers: Vec<Arc<Providers>> = rules.iter().map(|_| Arc::default()).collect();
        for (rule, providers) in rules.iter().zip(&providers) {
            added.add(rule, providers).unwrap();
        }
        let found = added.find(resource);
        let index = found.and_then(|found| providers.iter().position(|one| Arc::ptr_eq(one, found)));
        assert_eq!(index, expected);
    }

    #[test]
    fn the_most_exact_rule_applies() {
        let rules = ["secrets", "deployments.apps", "*.apps", "*."];
        check(&rules, "secrets", Some(0));
        check(&rules, "deployments.apps", Some(1));
        check(&rules, "daemonsets.apps", Some(2));
        check(&rules, "configmaps", Some(3));
        check(&rules, "pandas.awesome.bears.example", None);
        check(&["secrets", "*.*"], "pandas.awesome.bears.example", Some(1));
        check(&["secrets", "*.*"], "secrets", Some(0));
    }

    #[test]
    fn a_masked_rule_is_an_error() {
        let mut rules = ResourceRules::default();
        rules.add("*.", &Arc::default()).unwrap();
        let masked = rules.add("secrets", &Arc::default()).unwrap_err();
        assert_eq!(masked, r#"resource "secrets" is masked by earlier rule "*.""#);
        rules.add("*.*", &Arc::default()).unwrap();
        let masked = rules.add("a.b", &Arc::default()).unwrap_err();
        assert_eq!(masked, r#"resource "a.b" is masked by earlier rule "*.*""#);
    }
}

//! [`ConversionChain`]: the conversions of one CRD, which several hooks may share.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::config::{ConversionBinding, ConversionRule};
use crate::hook::Hook;

/// The conversions of one CRD.
#[derive(Debug)]
pub(crate) struct ConversionChain {
    pub(crate) crd_name: String,
    pub(crate) steps: Vec<ConversionStep>,
}

/// A conversion that a hook can do.
#[derive(Debug, Clone)]
pub(crate) struct ConversionStep {
    pub(crate) hook: Arc<Hook>,
    /// The index of the binding.
    pub(crate) at: usize,
    pub(crate) rule: ConversionRule,
}

impl ConversionStep {
    pub(crate) fn binding(&self) -> &ConversionBinding {
        &self.hook.config.conversions[self.at]
    }
}

impl ConversionChain {
    /// The chains of all hooks, one for each CRD.
    pub(crate) fn of_hooks(hooks: &[Arc<Hook>]) -> Vec<Self> {
        let mut chains: Vec<Self> = Vec::new();
        for hook in hooks {
            for (at, binding) in hook.config.conversions.iter().enumerate() {
                let steps = binding.rules.iter().map(|rule| ConversionStep {
                    hook: hook.clone(),
                    at,
                    rule: rule.clone(),
                });
                match chains.iter_mut().find(|chain| chain.crd_name == binding.crd_name) {
                    Some(chain) => chain.steps.extend(steps),
                    None => chains.push(Self {
                        crd_name: binding.crd_name.clone(),
                        steps: steps.collect(),
                    }),
                }
            }
        }
        chains
    }

    /// The shortest sequence of conversions from one version to another; empty if there is none.
    pub(crate) fn path(&self, from: &str, to: &str) -> Vec<ConversionStep> {
        let rules: Vec<&ConversionRule> = self.steps.iter().map(|step| &step.rule).collect();
        let path = shortest_path(&rules, from, to);
        path.into_iter().map(|at| self.steps[at].clone()).collect()
    }
}

/// The indexes of the rules of the shortest path. Of equal rules, those with a group come first.
fn shortest_path(rules: &[&ConversionRule], from: &str, to: &str) -> Vec<usize> {
    let mut open: VecDeque<(&str, Vec<usize>)> = VecDeque::from([(from, Vec::new())]);
    let mut used = vec![false; rules.len()];
    while let Some((version, path)) = open.pop_front() {
        let mut next: Vec<usize> = (0..rules.len())
            .filter(|at| !used[*at] && is_same_version(&rules[*at].from_version, version))
            .collect();
        next.sort_by_key(|at| (rules[*at].from_version != version, rules[*at].to_version != to));
        for at in next {
            used[at] = true;
            let path = [path.as_slice(), &[at]].concat();
            if is_same_version(&rules[at].to_version, to) {
                return path;
            }
            open.push_back((&rules[at].to_version, path));
        }
    }
    Vec::new()
}

/// Whether two versions are the same, if a version without a group is one of any group.
fn is_same_version(one: &str, other: &str) -> bool {
    match (one.split_once('/'), other.split_once('/')) {
        (None, Some((_, version))) => one == version,
        (Some((_, version)), None) => version == other,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules are `from->to`; so is the request. The expected path has the rules that run.
    #[track_caller]
    fn check(rules: &[&str], request: &str, expected: &[&str]) {
        let pair = |text: &str| {
            let (from, to) = text.split_once("->").unwrap();
            (from.to_owned(), to.to_owned())
        };
        let parsed: Vec<ConversionRule> = rules
            .iter()
            .map(|text| {
                let (from_version, to_version) = pair(text);
                ConversionRule {
                    from_version,
                    to_version,
                }
            })
            .collect();
        let (from, to) = pair(request);
        let path = shortest_path(&parsed.iter().collect::<Vec<_>>(), &from, &to);
        let path: Vec<&str> = path.into_iter().map(|at| rules[at]).collect();
        assert_eq!(path, expected);
    }

    /// TO8
    #[test]
    fn a_conversion_may_take_several_steps() {
        let rules = ["a/v1->a/v2", "a/v2->a/v3", "a/v3->a/v2", "a/v2->a/v1"];
        check(&rules, "a/v1->a/v2", &["a/v1->a/v2"]);
        check(&rules, "a/v1->a/v3", &["a/v1->a/v2", "a/v2->a/v3"]);
        check(&rules, "a/v3->a/v1", &["a/v3->a/v2", "a/v2->a/v1"]);
        check(&rules, "a/v1->a/v4", &[]);
        check(&rules, "b/v1->a/v2", &[]);
    }

    #[test]
    fn a_version_without_a_group_is_one_of_any_group() {
        check(&["v1->v2", "a/v2->v3"], "a/v1->a/v3", &["v1->v2", "a/v2->v3"]);
        check(&["v1->v2", "a/v1->a/v2"], "a/v1->a/v2", &["a/v1->a/v2"]);
    }

    #[test]
    fn a_direct_conversion_is_preferred() {
        check(&["v1->v2", "v2->v3", "v1->v3"], "a/v1->a/v3", &["v1->v3"]);
    }
}

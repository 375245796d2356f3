//! Whether a set of RBAC rules covers another.
//!
//! The requested rules are broken down until each has one verb on one resource or path: such a rule is covered by a
//! single held rule or not at all.

use std::collections::{BTreeMap, BTreeSet};

use crate::authorize::rule::{ALL, PolicyRule, has, path_matches};

/// The requested rules that are not held, one line per resource.
pub(super) fn missing(held: &[PolicyRule], requested: &[PolicyRule]) -> Vec<String> {
    let mut by_resource: BTreeMap<(String, String, Vec<String>), PolicyRule> = BTreeMap::new();
    let mut lines = BTreeSet::new();
    for subrule in requested.iter().flat_map(breakdown_rule) {
        if held.iter().any(|rule| covers(rule, &subrule)) {
            continue;
        }
        match (subrule.api_groups.as_slice(), subrule.resources.as_slice()) {
            ([group], [resource]) => {
                let resource_key = (group.clone(), resource.clone(), subrule.resource_names.clone());
                match by_resource.get_mut(&resource_key) {
                    Some(rule) => rule.verbs.extend(subrule.verbs),
                    None => {
                        by_resource.insert(resource_key, subrule);
                    }
                }
            }
            _ => {
                lines.insert(subrule.to_string());
            }
        }
    }
    lines.extend(by_resource.values().map(PolicyRule::to_string));
    lines.into_iter().collect()
}

/// The rule as subrules of one verb on one resource or path (upstream: `BreakdownRule`).
fn breakdown_rule(rule: &PolicyRule) -> Vec<PolicyRule> {
    let mut subrules = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let subrule = PolicyRule::for_resources(&[verb], &[group], &[resource]);
                let named = rule.resource_names.iter().map(|name| PolicyRule {
                    resource_names: vec![name.clone()],
                    ..subrule.clone()
                });
                subrules.extend(named);
                if rule.resource_names.is_empty() {
                    subrules.push(subrule);
                }
            }
        }
    }
    for path in &rule.non_resource_urls {
        let on_path = |verb: &String| PolicyRule::for_paths(&[verb], &[path]);
        subrules.extend(rule.verbs.iter().map(on_path));
    }
    subrules
}

fn covers(held: &PolicyRule, subrule: &PolicyRule) -> bool {
    let all = |held: &[String], requested: &[String]| requested.iter().all(|one| has(held, one));
    let names = &held.resource_names;
    all(&held.verbs, &subrule.verbs)
        && all(&held.api_groups, &subrule.api_groups)
        && subrule.resources.iter().all(|one| covers_resource(held, one))
        && subrule.non_resource_urls.iter().all(|path| {
            let mut own = held.non_resource_urls.iter();
            own.any(|own| path_matches(own, path))
        })
        && (names.is_empty()
            || (!subrule.resource_names.is_empty()
                && subrule.resource_names.iter().all(|name| names.contains(name))))
}

fn covers_resource(held: &PolicyRule, resource: &str) -> bool {
    let star_covers = |(_, subresource): (&str, &str)| {
        let star = format!("{ALL}/{subresource}");
        held.resources.contains(&star)
    };
    has(&held.resources, resource) || resource.split_once('/').is_some_and(star_covers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::authorize::{AccessTarget, Attributes};

    #[track_caller]
    fn check(held: &[PolicyRule], requested: &[PolicyRule], expected: &[&str]) {
        assert_eq!(missing(held, requested), expected);
    }

    fn named(mut rule: PolicyRule, names: &[&str]) -> PolicyRule {
        rule.resource_names = names.iter().map(|name| (*name).to_owned()).collect();
        rule
    }

    #[test]
    fn held_rules_may_be_granted() {
        let held = [PolicyRule::for_resources(
            &["get", "list"],
            &["", "apps"],
            &["pods", "deployments"],
        )];
        check(
            &held,
            &[PolicyRule::for_resources(&["get"], &["apps"], &["deployments"])],
            &[],
        );
        check(&[PolicyRule::for_resources(&["*"], &["*"], &["*"])], &held, &[]);
        check(&[], &[], &[]);
    }

    #[test]
    fn missing_rules_are_listed_by_resource() {
        let held = [PolicyRule::for_resources(&["get"], &[""], &["pods"])];
        let requested = [
            PolicyRule::for_resources(&["get", "list", "watch"], &[""], &["pods", "secrets"]),
            PolicyRule::for_paths(&["get"], &["/metrics"]),
        ];
        check(
            &held,
            &requested,
            &[
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}"#,
                r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#,
            ],
        );
    }

    #[test]
    fn a_wildcard_is_covered_only_by_a_wildcard() {
        let held = [PolicyRule::for_resources(&["get"], &[""], &["pods"])];
        let line = r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#;
        check(
            &held,
            &[PolicyRule::for_resources(&["*"], &[""], &["pods"])],
            &[line],
        );
    }

    #[test]
    fn resource_names_narrow_held_rules() {
        let pods = || PolicyRule::for_resources(&["get"], &[""], &["pods"]);
        check(&[pods()], &[named(pods(), &["a"])], &[]);
        check(&[named(pods(), &["a"])], &[named(pods(), &["a"])], &[]);
        let line = r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}"#;
        check(&[named(pods(), &["a"])], &[named(pods(), &["a", "b"])], &[line]);
        let line = r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#;
        check(&[named(pods(), &["a"])], &[pods()], &[line]);
    }

    #[test]
    fn a_star_covers_its_subresources() {
        let held = [PolicyRule::for_resources(&["get"], &["*"], &["*/scale"])];
        check(
            &held,
            &[PolicyRule::for_resources(
                &["get"],
                &["apps"],
                &["deployments/scale"],
            )],
            &[],
        );
        let line = r#"{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}"#;
        check(
            &held,
            &[PolicyRule::for_resources(&["get"], &["apps"], &["deployments"])],
            &[line],
        );
    }

    #[test]
    fn paths_are_covered_by_their_start() {
        let held = [PolicyRule::for_paths(&["get"], &["/api/*"])];
        check(
            &held,
            &[PolicyRule::for_paths(&["get"], &["/api/v1", "/api/*"])],
            &[],
        );
        let line = r#"{NonResourceURLs:["/apis"], Verbs:["get"]}"#;
        check(&held, &[PolicyRule::for_paths(&["get"], &["/apis"])], &[line]);
    }

    fn some(words: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec(prop::sample::select(words), 0..3)
            .prop_map(|words| words.into_iter().map(str::to_owned).collect())
    }

    fn rules() -> impl Strategy<Value = Vec<PolicyRule>> {
        let rule = (
            some(&["get", "list", "*"]),
            some(&["", "apps", "*"]),
            some(&["pods", "pods/log", "*/log", "*"]),
            some(&["a", "b"]),
            some(&["/api", "/api/*", "*"]),
        );
        let rule = rule.prop_map(
            |(verbs, api_groups, resources, resource_names, non_resource_urls)| PolicyRule {
                verbs,
                api_groups,
                resources,
                resource_names,
                non_resource_urls,
            },
        );
        prop::collection::vec(rule, 0..4)
    }

    /// All requests that [`rules`] can allow.
    fn all_requests() -> Vec<(&'static str, AccessTarget<'static>)> {
        let mut all = Vec::new();
        for verb in ["get", "list", "watch"] {
            all.extend(["/api", "/api/v1", "/x"].map(|path| (verb, AccessTarget::Path(path))));
            for group in ["", "apps", "batch"] {
                for (resource, subresource) in [("pods", ""), ("pods", "log"), ("jobs", ""), ("jobs", "log")]
                {
                    for name in ["", "a", "b", "c"] {
                        let object = AccessTarget::Resource {
                            group,
                            resource,
                            subresource,
                            namespace: "default",
                            name,
                        };
                        all.push((verb, object));
                    }
                }
            }
        }
        all
    }

    proptest! {
        /// Granting covered rules does not extend the permissions of any user.
        #[test]
        fn covered_rules_allow_nothing_new(held in rules(), requested in rules()) {
            if missing(&held, &requested).is_empty() {
                for (verb, object) in all_requests() {
                    let attributes = Attributes::new(verb, object);
                    let allowed = |rules: &[PolicyRule]| rules.iter().any(|rule| rule.allows(&attributes));
                    prop_assert!(!allowed(&requested) || allowed(&held), "{verb} {object:?}");
                }
            }
        }
    }
}

//! Whether some rules cover others.
//!
//! The rules asked for are broken down until each has one verb and one thing: such a piece is covered by a single rule
//! or not at all.

use std::collections::{BTreeMap, BTreeSet};

use crate::authorize::rule::{ALL, Rule, has, path_matches};

/// What of the rules asked for is not held, one line for each thing.
pub(super) fn missing(held: &[Rule], asked: &[Rule]) -> Vec<String> {
    let mut by_thing: BTreeMap<(String, String, Vec<String>), Rule> = BTreeMap::new();
    let mut lines = BTreeSet::new();
    for piece in asked.iter().flat_map(pieces) {
        if held.iter().any(|rule| covers(rule, &piece)) {
            continue;
        }
        match (piece.api_groups.as_slice(), piece.resources.as_slice()) {
            ([group], [resource]) => {
                let thing = (group.clone(), resource.clone(), piece.resource_names.clone());
                match by_thing.get_mut(&thing) {
                    Some(rule) => rule.verbs.extend(piece.verbs),
                    None => {
                        by_thing.insert(thing, piece);
                    }
                }
            }
            _ => {
                lines.insert(piece.to_string());
            }
        }
    }
    lines.extend(by_thing.values().map(Rule::to_string));
    lines.into_iter().collect()
}

/// The rule in pieces of one verb and one thing.
fn pieces(rule: &Rule) -> Vec<Rule> {
    let mut pieces = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let piece = Rule::on(&[verb], &[group], &[resource]);
                let named = rule.resource_names.iter().map(|name| Rule {
                    resource_names: vec![name.clone()],
                    ..piece.clone()
                });
                pieces.extend(named);
                if rule.resource_names.is_empty() {
                    pieces.push(piece);
                }
            }
        }
    }
    for path in &rule.non_resource_urls {
        let on_path = |verb: &String| Rule::on_paths(&[verb], &[path]);
        pieces.extend(rule.verbs.iter().map(on_path));
    }
    pieces
}

fn covers(held: &Rule, piece: &Rule) -> bool {
    let all = |held: &[String], asked: &[String]| asked.iter().all(|one| has(held, one));
    let names = &held.resource_names;
    all(&held.verbs, &piece.verbs)
        && all(&held.api_groups, &piece.api_groups)
        && piece.resources.iter().all(|one| covers_resource(held, one))
        && piece.non_resource_urls.iter().all(|path| {
            let mut own = held.non_resource_urls.iter();
            own.any(|own| path_matches(own, path))
        })
        && (names.is_empty()
            || (!piece.resource_names.is_empty()
                && piece.resource_names.iter().all(|name| names.contains(name))))
}

fn covers_resource(held: &Rule, resource: &str) -> bool {
    let behind_star = |(_, subresource): (&str, &str)| {
        let star = format!("{ALL}/{subresource}");
        held.resources.contains(&star)
    };
    has(&held.resources, resource) || resource.split_once('/').is_some_and(behind_star)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::authorize::{Attributes, Object};

    #[track_caller]
    fn check(held: &[Rule], asked: &[Rule], expected: &[&str]) {
        assert_eq!(missing(held, asked), expected);
    }

    fn named(mut rule: Rule, names: &[&str]) -> Rule {
        rule.resource_names = names.iter().map(|name| (*name).to_owned()).collect();
        rule
    }

    #[test]
    fn what_is_held_may_be_granted() {
        let held = [Rule::on(
            &["get", "list"],
            &["", "apps"],
            &["pods", "deployments"],
        )];
        check(&held, &[Rule::on(&["get"], &["apps"], &["deployments"])], &[]);
        check(&[Rule::on(&["*"], &["*"], &["*"])], &held, &[]);
        check(&[], &[], &[]);
    }

    #[test]
    fn what_is_not_held_is_named_by_thing() {
        let held = [Rule::on(&["get"], &[""], &["pods"])];
        let asked = [
            Rule::on(&["get", "list", "watch"], &[""], &["pods", "secrets"]),
            Rule::on_paths(&["get"], &["/metrics"]),
        ];
        check(
            &held,
            &asked,
            &[
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}"#,
                r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#,
            ],
        );
    }

    #[test]
    fn a_star_is_held_only_by_a_star() {
        let held = [Rule::on(&["get"], &[""], &["pods"])];
        let line = r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#;
        check(&held, &[Rule::on(&["*"], &[""], &["pods"])], &[line]);
    }

    #[test]
    fn names_narrow_what_is_held() {
        let pods = || Rule::on(&["get"], &[""], &["pods"]);
        check(&[pods()], &[named(pods(), &["a"])], &[]);
        check(&[named(pods(), &["a"])], &[named(pods(), &["a"])], &[]);
        let line = r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}"#;
        check(&[named(pods(), &["a"])], &[named(pods(), &["a", "b"])], &[line]);
        let line = r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#;
        check(&[named(pods(), &["a"])], &[pods()], &[line]);
    }

    #[test]
    fn a_star_covers_its_subresources() {
        let held = [Rule::on(&["get"], &["*"], &["*/scale"])];
        check(
            &held,
            &[Rule::on(&["get"], &["apps"], &["deployments/scale"])],
            &[],
        );
        let line = r#"{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}"#;
        check(&held, &[Rule::on(&["get"], &["apps"], &["deployments"])], &[line]);
    }

    #[test]
    fn paths_are_covered_by_their_start() {
        let held = [Rule::on_paths(&["get"], &["/api/*"])];
        check(&held, &[Rule::on_paths(&["get"], &["/api/v1", "/api/*"])], &[]);
        let line = r#"{NonResourceURLs:["/apis"], Verbs:["get"]}"#;
        check(&held, &[Rule::on_paths(&["get"], &["/apis"])], &[line]);
    }

    fn some(words: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec(prop::sample::select(words), 0..3)
            .prop_map(|words| words.into_iter().map(str::to_owned).collect())
    }

    fn rules() -> impl Strategy<Value = Vec<Rule>> {
        let rule = (
            some(&["get", "list", "*"]),
            some(&["", "apps", "*"]),
            some(&["pods", "pods/log", "*/log", "*"]),
            some(&["a", "b"]),
            some(&["/api", "/api/*", "*"]),
        );
        let rule = rule.prop_map(
            |(verbs, api_groups, resources, resource_names, non_resource_urls)| Rule {
                verbs,
                api_groups,
                resources,
                resource_names,
                non_resource_urls,
            },
        );
        prop::collection::vec(rule, 0..4)
    }

    /// Everything that can be asked in the words of [`rules`].
    fn questions() -> Vec<(&'static str, Object<'static>)> {
        let mut questions = Vec::new();
        for verb in ["get", "list", "watch"] {
            questions.extend(["/api", "/api/v1", "/x"].map(|path| (verb, Object::Path(path))));
            for group in ["", "apps", "batch"] {
                for (resource, subresource) in [("pods", ""), ("pods", "log"), ("jobs", ""), ("jobs", "log")]
                {
                    for name in ["", "a", "b", "c"] {
                        let object = Object::Resource {
                            group,
                            resource,
                            subresource,
                            namespace: "default",
                            name,
                        };
                        questions.push((verb, object));
                    }
                }
            }
        }
        questions
    }

    proptest! {
        /// Nobody gains a right by granting what is covered.
        #[test]
        fn rules_that_are_covered_allow_nothing_new(held in rules(), asked in rules()) {
            if missing(&held, &asked).is_empty() {
                for (verb, object) in questions() {
                    let attributes = Attributes::new(verb, object);
                    let allowed = |rules: &[Rule]| rules.iter().any(|rule| rule.allows(&attributes));
                    prop_assert!(!allowed(&asked) || allowed(&held), "{verb} {object:?}");
                }
            }
        }
    }
}

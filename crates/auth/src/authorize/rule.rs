//! [`PolicyRule`]: verbs on resources or paths.
//!
//! The fields and their meaning are those of a `PolicyRule` in `staging/src/k8s.io/api/rbac/v1/types.go`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use super::{AccessTarget, Attributes};

/// The wildcard.
pub(crate) const ALL: &str = "*";

/// Allows each verb on each of the resources, or on each of the paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    #[serde(deserialize_with = "nullable_list")]
    pub verbs: Vec<String>,
    #[serde(deserialize_with = "nullable_list", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    #[serde(deserialize_with = "nullable_list", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Empty means all.
    #[serde(deserialize_with = "nullable_list", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "nullable_list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

/// A list that may be absent or null.
pub(crate) fn nullable_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::<Vec<T>>::deserialize(from)?.unwrap_or_default())
}

impl PolicyRule {
    /// A rule on resources.
    pub fn for_resources(verbs: &[impl AsRef<str>], groups: &[&str], resources: &[&str]) -> Self {
        Self {
            verbs: owned(verbs),
            api_groups: owned(groups),
            resources: owned(resources),
            ..Self::default()
        }
    }

    /// A rule on paths.
    pub fn for_paths(verbs: &[impl AsRef<str>], paths: &[&str]) -> Self {
        Self {
            verbs: owned(verbs),
            non_resource_urls: owned(paths),
            ..Self::default()
        }
    }

    /// Whether the rule allows the request.
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has(&self.verbs, attributes.verb) {
            return false;
        }
        match attributes.target {
            AccessTarget::Path(path) => self.non_resource_urls.iter().any(|own| path_matches(own, path)),
            AccessTarget::Resource {
                group,
                resource,
                subresource,
                name,
                ..
            } => {
                let names = &self.resource_names;
                has(&self.api_groups, group)
                    && self
                        .resources
                        .iter()
                        .any(|own| resource_matches(own, resource, subresource))
                    && (names.is_empty() || names.iter().any(|own| own == name))
            }
        }
    }
}

fn owned(words: &[impl AsRef<str>]) -> Vec<String> {
    words.iter().map(|word| word.as_ref().to_owned()).collect()
}

/// Whether a list contains the item or the wildcard.
pub(crate) fn has(list: &[String], word: &str) -> bool {
    list.iter().any(|own| own == ALL || own == word)
}

/// `pods`, `pods/log`, `*/scale` or `*`.
fn resource_matches(own: &str, resource: &str, subresource: &str) -> bool {
    if own == ALL {
        return true;
    }
    match (own.split_once('/'), subresource) {
        (None, "") => own == resource,
        (Some((head, tail)), subresource) if !subresource.is_empty() => {
            tail == subresource && (head == ALL || head == resource)
        }
        _ => false,
    }
}

/// Whether a path matches; a pattern that ends in `*` matches by prefix.
pub(crate) fn path_matches(own: &str, path: &str) -> bool {
    own == path
        || own
            .strip_suffix('*')
            .is_some_and(|start| path.starts_with(start.trim_end_matches('*')))
}

/// The form in which missing rules are listed in errors.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let fields: Vec<String> = parts
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}:{}", quoted(list)))
            .collect();
        write!(f, "{{{}}}", fields.join(", "))
    }
}

/// `["a" "b"]`: a list as messages print it.
pub(crate) fn quoted(list: &[String]) -> String {
    let words: Vec<String> = list.iter().map(|word| format!("{word:?}")).collect();
    format!("[{}]", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rule: &PolicyRule, verb: &str, path: &str, allowed: bool) {
        let parts: Vec<&str> = path.split(' ').collect();
        let object = match parts.as_slice() {
            [path] => AccessTarget::Path(path),
            [group, resource, name] => {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                AccessTarget::Resource {
                    group: group.trim_matches('-'),
                    resource,
                    subresource,
                    namespace: "default",
                    name: name.trim_matches('-'),
                }
            }
            _ => panic!("{path:?} is neither a path nor group, resource and name"),
        };
        assert_eq!(
            rule.allows(&Attributes::new(verb, object)),
            allowed,
            "{verb} {path}"
        );
    }

    #[test]
    fn verb_group_and_resource_must_all_match() {
        let rule = PolicyRule::for_resources(&["get", "list"], &["apps"], &["deployments"]);
        check(&rule, "get", "apps deployments -", true);
        check(&rule, "watch", "apps deployments -", false);
        check(&rule, "get", "- deployments -", false);
        check(&rule, "get", "apps replicasets -", false);
    }

    #[test]
    fn a_subresource_is_a_resource_of_its_own() {
        let rule = PolicyRule::for_resources(&["get"], &[""], &["pods", "services/proxy"]);
        check(&rule, "get", "- pods web", true);
        check(&rule, "get", "- pods/log web", false);
        check(&rule, "get", "- services web", false);
        check(&rule, "get", "- services/proxy web", true);
        let scales = PolicyRule::for_resources(&["get"], &["*"], &["*/scale"]);
        check(&scales, "get", "apps deployments/scale web", true);
        check(&scales, "get", "apps deployments web", false);
        check(&scales, "get", "apps deployments/status web", false);
    }

    #[test]
    fn a_wildcard_matches_everything() {
        let rule = PolicyRule::for_resources(&["*"], &["*"], &["*"]);
        check(&rule, "get", "apps deployments/scale web", true);
        check(&rule, "get", "/healthz", false);
        check(
            &PolicyRule::for_paths(&["*"], &["*"]),
            "post",
            "/anything/else",
            true,
        );
    }

    #[test]
    fn resource_names_narrow_a_rule() {
        let mut rule = PolicyRule::for_resources(&["get"], &[""], &["configmaps"]);
        rule.resource_names = vec!["only".to_owned()];
        check(&rule, "get", "- configmaps only", true);
        check(&rule, "get", "- configmaps other", false);
        check(&rule, "get", "- configmaps -", false);
    }

    #[test]
    fn a_path_with_a_wildcard_matches_by_prefix() {
        let rule = PolicyRule::for_paths(&["get"], &["/api/*", "/version"]);
        check(&rule, "get", "/api/v1", true);
        check(&rule, "get", "/api", false);
        check(&rule, "get", "/version", true);
        check(&rule, "get", "/version/", false);
        check(&rule, "post", "/version", false);
    }

    #[test]
    fn a_rule_prints_in_one_line() {
        let rule = PolicyRule::for_resources(&["get", "list"], &[""], &["secrets"]);
        assert_eq!(
            rule.to_string(),
            r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}"#
        );
        assert_eq!(
            PolicyRule::for_paths(&["*"], &["*"]).to_string(),
            r#"{NonResourceURLs:["*"], Verbs:["*"]}"#
        );
    }
}

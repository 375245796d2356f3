//! The audit policy: how much is logged of which requests.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use setpoint_api::User;
use setpoint_api::field::Errors;
use setpoint_codec::{from_tree, yaml};

use crate::authorize::rule::{nullable_list, path_matches};
use crate::authorize::{AccessTarget, Attributes};

/// The audit level. Each level includes the one before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    #[default]
    None,
    /// User, verb, object, times and outcome.
    Metadata,
    /// Also the request body.
    Request,
    /// Also the response body.
    RequestResponse,
}

/// The stage of a request at which an event is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The request has been received and not handled yet.
    RequestReceived,
    /// The response headers have been sent, the body continues: a watch.
    ResponseStarted,
    /// The response is complete.
    ResponseComplete,
    /// The handler panicked.
    Panic,
}

/// The rules; the first that matches a request decides. A request that no rule matches is not logged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: bool,
}

/// The audit settings of one request (upstream: `RequestAuditConfig`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestAuditConfig {
    pub level: Level,
    pub omit_stages: Vec<Stage>,
    pub omit_managed_fields: bool,
}

/// An invalid policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("failed decoding: {0}")]
    Unreadable(String),
    #[error("unknown group version field {0} in policy")]
    Version(String),
    #[error("{0}")]
    Invalid(String),
    #[error("loaded illegal policy with 0 rules")]
    Empty,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PolicyObject {
    api_version: String,
    kind: String,
    #[serde(deserialize_with = "nullable_list")]
    rules: Vec<RuleObject>,
    #[serde(deserialize_with = "nullable_list")]
    omit_stages: Vec<String>,
    omit_managed_fields: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RuleObject {
    level: String,
    #[serde(deserialize_with = "nullable_list")]
    omit_stages: Vec<String>,
    #[serde(flatten)]
    rule: Rule,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    #[serde(skip)]
    level: Level,
    #[serde(skip)]
    omit_stages: Vec<Stage>,
    #[serde(deserialize_with = "nullable_list")]
    users: Vec<String>,
    #[serde(deserialize_with = "nullable_list")]
    user_groups: Vec<String>,
    #[serde(deserialize_with = "nullable_list")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "nullable_list")]
    resources: Vec<GroupResources>,
    #[serde(deserialize_with = "nullable_list")]
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "nullable_list")]
    paths: Vec<String>,
    omit_managed_fields: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GroupResources {
    group: String,
    #[serde(deserialize_with = "nullable_list")]
    resources: Vec<String>,
    #[serde(deserialize_with = "nullable_list")]
    resource_names: Vec<String>,
}

// === impl Policy ===

impl Policy {
    /// Parses a policy in YAML or JSON.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let unreadable = |why: &dyn Display| PolicyError::Unreadable(why.to_string());
        let tree = yaml::parse(text.as_bytes()).map_err(|error| unreadable(&error))?;
        let object: PolicyObject = from_tree(&tree).map_err(|error| unreadable(&error))?;
        if object.api_version != "audit.k8s.io/v1" || object.kind != "Policy" {
            let actual = format!("{}, Kind={}", object.api_version, object.kind);
            return Err(PolicyError::Version(actual));
        }
        let errors = Errors::default();
        let omit_stages = stages(&object.omit_stages, &errors.at("omitStages"));
        let mut rules = Vec::with_capacity(object.rules.len());
        for (index, rule) in object.rules.into_iter().enumerate() {
            rules.push(check_rule(rule, &omit_stages, &errors.at("rules").index(index)));
        }
        let messages: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        match (messages.as_slice(), rules.is_empty()) {
            ([], true) => Err(PolicyError::Empty),
            ([], false) => Ok(Self {
                rules,
                omit_stages,
                omit_managed_fields: object.omit_managed_fields,
            }),
            ([one], _) => Err(PolicyError::Invalid(one.clone())),
            (many, _) => Err(PolicyError::Invalid(format!("[{}]", many.join(", ")))),
        }
    }

    /// The audit level of a request.
    pub fn level(&self, user: &User, attributes: &Attributes<'_>) -> Level {
        self.find(user, attributes)
            .map(|rule| rule.level)
            .unwrap_or_default()
    }

    /// The audit settings of a request (upstream: `EvaluatePolicyRule`).
    pub fn evaluate(&self, user: &User, attributes: &Attributes<'_>) -> RequestAuditConfig {
        match self.find(user, attributes) {
            None => RequestAuditConfig {
                level: Level::None,
                omit_stages: self.omit_stages.clone(),
                omit_managed_fields: self.omit_managed_fields,
            },
            Some(rule) => RequestAuditConfig {
                level: rule.level,
                omit_stages: rule.omit_stages.clone(),
                omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
            },
        }
    }

    fn find(&self, user: &User, attributes: &Attributes<'_>) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.matches(user, attributes))
    }
}

/// Converts and validates a rule.
fn check_rule(object: RuleObject, omit_stages: &[Stage], errors: &Errors) -> Rule {
    let mut rule = object.rule;
    rule.level = level(&object.level, &errors.at("level"));
    rule.omit_stages = stages(&object.omit_stages, &errors.at("omitStages"));
    rule.omit_stages.extend_from_slice(omit_stages);
    for (index, path) in rule.paths.iter().enumerate() {
        check_path(path, &errors.at("nonResourceURLs").index(index));
    }
    for resources in &rule.resources {
        if !resources.resource_names.is_empty() && resources.resources.is_empty() {
            let detail = "using resourceNames requires at least one resource";
            let at = errors.at("resources");
            at.at("resourceNames").invalid(&resources.resource_names, detail);
        }
    }
    let on_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
    if on_resources && !rule.paths.is_empty() {
        let detail = "rules cannot apply to both regular resources and non-resource URLs";
        errors.at("nonResourceURLs").invalid(&rule.paths, detail);
    }
    rule
}

fn level(text: &str, errors: &Errors) -> Level {
    match text {
        "None" => Level::None,
        "Metadata" => Level::Metadata,
        "Request" => Level::Request,
        "RequestResponse" => Level::RequestResponse,
        "" => {
            errors.required("");
            Level::None
        }
        other => {
            errors.not_supported(other, &["None", "Metadata", "Request", "RequestResponse"]);
            Level::None
        }
    }
}

fn stages(texts: &[String], errors: &Errors) -> Vec<Stage> {
    let mut stages = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        match text.as_str() {
            "RequestReceived" => stages.push(Stage::RequestReceived),
            "ResponseStarted" => stages.push(Stage::ResponseStarted),
            "ResponseComplete" => stages.push(Stage::ResponseComplete),
            "Panic" => stages.push(Stage::Panic),
            other => errors.index(index).invalid(
                other,
                "allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic",
            ),
        }
    }
    stages
}

fn check_path(path: &str, errors: &Errors) {
    if path == "*" {
        return;
    }
    if !path.starts_with('/') {
        errors.invalid(path, "non-resource URL rules must begin with a '/' character");
    }
    if path.strip_suffix('*').unwrap_or(path).contains('*') {
        let detail = "non-resource URL wildcards '*' must be the final character of the rule";
        errors.invalid(path, detail);
    }
}

// === impl Rule ===

impl Rule {
    fn matches(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        let matches = |list: &[String], word: &str| list.is_empty() || list.iter().any(|own| own == word);
        let in_group = || self.user_groups.iter().any(|group| user.is_in(group));
        if !matches(&self.users, &user.name) || !matches(&self.verbs, attributes.verb) {
            return false;
        }
        if !self.user_groups.is_empty() && !in_group() {
            return false;
        }
        match attributes.target {
            AccessTarget::Path(path) if self.namespaces.is_empty() && self.resources.is_empty() => {
                self.paths.is_empty() || self.paths.iter().any(|own| path_matches(own, path))
            }
            AccessTarget::Path(_) => false,
            // Cluster-scoped objects match the empty namespace.
            AccessTarget::Resource { namespace, .. } => {
                let only_paths =
                    !self.paths.is_empty() && self.namespaces.is_empty() && self.resources.is_empty();
                !only_paths
                    && matches(&self.namespaces, namespace)
                    && (self.resources.is_empty()
                        || self.resources.iter().any(|own| own.matches(attributes.target)))
            }
        }
    }
}

impl GroupResources {
    fn matches(&self, object: AccessTarget<'_>) -> bool {
        let AccessTarget::Resource {
            group,
            resource,
            subresource,
            name,
            ..
        } = object
        else {
            return false;
        };
        if self.group != group && self.group != "*" {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        let named = self.resource_names.is_empty() || self.resource_names.iter().any(|own| own == name);
        named
            && self
                .resources
                .iter()
                .any(|own| resource_matches(own, resource, subresource))
    }
}

/// `pods`, `pods/log`, `*/log`, `pods/*` or `*`.
fn resource_matches(own: &str, resource: &str, subresource: &str) -> bool {
    match own.split_once('/') {
        None => own == "*" || (subresource.is_empty() && own == resource),
        Some((head, "*")) => head == resource,
        Some((head, tail)) => {
            !subresource.is_empty() && tail == subresource && (head == "*" || head == resource)
        }
    }
}

#[cfg(test)]
mod tests;

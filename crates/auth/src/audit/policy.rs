//! How much is told about which requests.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use setpoint_api::User;
use setpoint_api::field::Errors;
use setpoint_codec::{from_tree, yaml};

use crate::authorize::rule::{list, path_matches};
use crate::authorize::{Attributes, Object};

/// How much is told. Each level tells all that the one before it does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    #[default]
    None,
    /// Who, what, when, and the outcome.
    Metadata,
    /// The document that came in, too.
    Request,
    /// The document that went out, too.
    RequestResponse,
}

/// When something is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The request has come in, and nothing has been done yet.
    RequestReceived,
    /// The answer has begun, and goes on: a watch.
    ResponseStarted,
    /// The answer is out.
    ResponseComplete,
    /// Something broke on this side.
    Panic,
}

/// Rules; the first that matches a request decides. A request that none matches is not told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: bool,
}

/// What a policy says about one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    pub level: Level,
    pub omit_stages: Vec<Stage>,
    pub omit_managed_fields: bool,
}

/// A policy that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPolicy {
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
struct Document {
    api_version: String,
    kind: String,
    #[serde(deserialize_with = "list")]
    rules: Vec<RuleDocument>,
    #[serde(deserialize_with = "list")]
    omit_stages: Vec<String>,
    omit_managed_fields: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RuleDocument {
    level: String,
    #[serde(deserialize_with = "list")]
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
    #[serde(deserialize_with = "list")]
    users: Vec<String>,
    #[serde(deserialize_with = "list")]
    user_groups: Vec<String>,
    #[serde(deserialize_with = "list")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "list")]
    resources: Vec<Resources>,
    #[serde(deserialize_with = "list")]
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "list")]
    paths: Vec<String>,
    omit_managed_fields: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Resources {
    group: String,
    #[serde(deserialize_with = "list")]
    resources: Vec<String>,
    #[serde(deserialize_with = "list")]
    resource_names: Vec<String>,
}

// === impl Policy ===

impl Policy {
    /// Reads a policy in YAML or JSON.
    pub fn parse(text: &str) -> Result<Self, BadPolicy> {
        let unreadable = |why: &dyn Display| BadPolicy::Unreadable(why.to_string());
        let tree = yaml::parse(text.as_bytes()).map_err(|error| unreadable(&error))?;
        let document: Document = from_tree(&tree).map_err(|error| unreadable(&error))?;
        if document.api_version != "audit.k8s.io/v1" || document.kind != "Policy" {
            let named = format!("{}, Kind={}", document.api_version, document.kind);
            return Err(BadPolicy::Version(named));
        }
        let errors = Errors::default();
        let omit_stages = stages(&document.omit_stages, &errors.at("omitStages"));
        let mut rules = Vec::with_capacity(document.rules.len());
        for (index, rule) in document.rules.into_iter().enumerate() {
            rules.push(checked(rule, &omit_stages, &errors.at("rules").index(index)));
        }
        let found: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        match (found.as_slice(), rules.is_empty()) {
            ([], true) => Err(BadPolicy::Empty),
            ([], false) => Ok(Self {
                rules,
                omit_stages,
                omit_managed_fields: document.omit_managed_fields,
            }),
            ([one], _) => Err(BadPolicy::Invalid(one.clone())),
            (many, _) => Err(BadPolicy::Invalid(format!("[{}]", many.join(", ")))),
        }
    }

    /// How much is told about a request.
    pub fn level(&self, user: &User, attributes: &Attributes<'_>) -> Level {
        self.find(user, attributes)
            .map(|rule| rule.level)
            .unwrap_or_default()
    }

    /// What is told about a request, and at which stages.
    pub fn told(&self, user: &User, attributes: &Attributes<'_>) -> Told {
        match self.find(user, attributes) {
            None => Told {
                level: Level::None,
                omit_stages: self.omit_stages.clone(),
                omit_managed_fields: self.omit_managed_fields,
            },
            Some(rule) => Told {
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

/// The rule of a document, with what is wrong about it reported.
fn checked(document: RuleDocument, omit_stages: &[Stage], errors: &Errors) -> Rule {
    let mut rule = document.rule;
    rule.level = level(&document.level, &errors.at("level"));
    rule.omit_stages = stages(&document.omit_stages, &errors.at("omitStages"));
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
        let open = |list: &[String], word: &str| list.is_empty() || list.iter().any(|own| own == word);
        let in_group = || self.user_groups.iter().any(|group| user.is_in(group));
        if !open(&self.users, &user.name) || !open(&self.verbs, attributes.verb) {
            return false;
        }
        if !self.user_groups.is_empty() && !in_group() {
            return false;
        }
        match attributes.object {
            Object::Path(path) if self.namespaces.is_empty() && self.resources.is_empty() => {
                self.paths.is_empty() || self.paths.iter().any(|own| path_matches(own, path))
            }
            Object::Path(_) => false,
            // Objects of the whole cluster are in the namespace without a name.
            Object::Resource { namespace, .. } => {
                let only_paths =
                    !self.paths.is_empty() && self.namespaces.is_empty() && self.resources.is_empty();
                !only_paths
                    && open(&self.namespaces, namespace)
                    && (self.resources.is_empty()
                        || self
                            .resources
                            .iter()
                            .any(|own| own.match_object(attributes.object)))
            }
        }
    }
}

impl Resources {
    fn match_object(&self, object: Object<'_>) -> bool {
        let Object::Resource {
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

//! Bindings of webhooks: admission of requests, and conversion of custom resources.

use k8s_openapi::api::admissionregistration::v1::{MatchCondition, RuleWithOperations, ValidatingWebhook};
use serde::Deserialize;

use super::BindingOptions;
use super::selector::RawLabels;

/// A binding to requests that a webhook admits: of `kubernetesValidating` or of `kubernetesMutating`.
#[derive(Debug)]
pub struct AdmissionBinding {
    /// Name, group and snapshots. It has no queue: the hook runs for each review at once.
    pub options: BindingOptions,
    /// The webhook without its address. Without `failure_policy`, that of the operator's flag applies.
    pub webhook: ValidatingWebhook,
}

/// A binding to conversions of custom resources.
#[derive(Debug)]
pub struct ConversionBinding {
    /// Name, group and snapshots. It has no queue: the hook runs for each review at once.
    pub options: BindingOptions,
    /// The name of the CRD.
    pub crd_name: String,
    /// The conversions of the hook.
    pub rules: Vec<ConversionRule>,
}

/// A conversion from one version to another. Versions may have a group, as in `apiVersion`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversionRule {
    /// The version of the objects that the hook gets.
    pub from_version: String,
    /// The version of the objects that it returns.
    pub to_version: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawAdmission {
    name: String,
    group: Option<String>,
    include_snapshots_from: Option<Vec<String>>,
    rules: Option<Vec<RawRule>>,
    failure_policy: Option<String>,
    label_selector: Option<RawLabels>,
    namespace: Option<RawAdmissionNamespaces>,
    side_effects: Option<String>,
    timeout_seconds: Option<i32>,
    match_conditions: Option<Vec<MatchCondition>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawAdmissionNamespaces {
    label_selector: RawLabels,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawRule {
    api_groups: Vec<String>,
    api_versions: Vec<String>,
    resources: Vec<String>,
    operations: Vec<String>,
    scope: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawConversion {
    name: String,
    group: Option<String>,
    include_snapshots_from: Option<Vec<String>>,
    crd_name: String,
    conversions: Vec<ConversionRule>,
}

/// How long the API server waits for a hook that sets no timeout.
const DEFAULT_TIMEOUT_SECONDS: i32 = 10;

// === impl AdmissionBinding ===

impl AdmissionBinding {
    /// The resources of its rules.
    pub(super) fn resources(&self) -> impl Iterator<Item = String> {
        let rules = self.webhook.rules.iter().flatten();
        rules.flat_map(|rule| rule.resources.iter().flatten().map(|name| name.to_lowercase()))
    }

    /// The identifier of the webhook in URLs: lower-case letters, digits, slashes and single hyphens.
    pub(crate) fn webhook_id(&self) -> String {
        let mut id = String::new();
        for letter in self.options.name.chars() {
            if letter.is_ascii_uppercase() && !id.ends_with('-') {
                id.push('-');
            }
            match letter.to_ascii_lowercase() {
                letter @ ('a'..='z' | '0'..='9' | '/') => id.push(letter),
                _ if id.ends_with('-') => {}
                _ => id.push('-'),
            }
        }
        id
    }
}

// === impl RawAdmission ===

impl RawAdmission {
    pub(super) fn convert(self) -> Result<AdmissionBinding, String> {
        check_name(&self.name)?;
        check_enum(
            "failurePolicy",
            self.failure_policy.as_deref(),
            &["Ignore", "Fail"],
        )?;
        check_enum(
            "sideEffects",
            self.side_effects.as_deref(),
            &["None", "NoneOnDryRun"],
        )?;
        let timeout = self.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        if !(1..=30).contains(&timeout) {
            return Err(format!(
                "timeoutSeconds: Invalid value: {timeout}: the timeout value must be between 1 and 30 seconds"
            ));
        }
        let rules = self
            .rules
            .map(|rules| rules.into_iter().map(RawRule::convert).collect());
        let namespaces = self
            .namespace
            .map(|namespaces| namespaces.label_selector.into_checked());
        let webhook = ValidatingWebhook {
            name: self.name.clone(),
            rules: rules.transpose()?,
            failure_policy: self.failure_policy,
            side_effects: self.side_effects.unwrap_or_else(|| "None".to_owned()),
            timeout_seconds: Some(timeout),
            namespace_selector: namespaces.transpose()?,
            object_selector: self.label_selector.map(RawLabels::into_checked).transpose()?,
            match_conditions: self.match_conditions,
            match_policy: Some("Equivalent".to_owned()),
            admission_review_versions: vec!["v1".to_owned(), "v1beta1".to_owned()],
            ..ValidatingWebhook::default()
        };
        Ok(AdmissionBinding {
            options: options(self.name, self.group, self.include_snapshots_from),
            webhook,
        })
    }
}

impl RawRule {
    fn convert(self) -> Result<RuleWithOperations, String> {
        for operation in &self.operations {
            let allowed = ["CREATE", "UPDATE", "DELETE", "CONNECT", "*"];
            check_enum("operations", Some(operation.as_str()), &allowed)?;
        }
        check_enum("scope", self.scope.as_deref(), &["Cluster", "Namespaced", "*"])?;
        let lists = [
            ("apiGroups", &self.api_groups),
            ("apiVersions", &self.api_versions),
            ("resources", &self.resources),
            ("operations", &self.operations),
        ];
        if let Some((field, _)) = lists.iter().find(|(_, list)| list.is_empty()) {
            return Err(format!("{field} should have at least 1 item"));
        }
        Ok(RuleWithOperations {
            api_groups: Some(self.api_groups),
            api_versions: Some(self.api_versions),
            resources: Some(self.resources),
            operations: Some(self.operations),
            scope: self.scope,
        })
    }
}

// === impl RawConversion ===

impl RawConversion {
    pub(super) fn convert(self) -> Result<ConversionBinding, String> {
        if self.conversions.is_empty() {
            return Err("conversions should have at least 1 item".to_owned());
        }
        Ok(ConversionBinding {
            options: options(self.name, self.group, self.include_snapshots_from),
            crd_name: self.crd_name,
            rules: self.conversions,
        })
    }
}

fn options(name: String, group: Option<String>, include: Option<Vec<String>>) -> BindingOptions {
    BindingOptions {
        name,
        allow_failure: false,
        queue: String::new(),
        group: group.filter(|group| !group.is_empty()),
        include_snapshots_from: include.unwrap_or_default(),
    }
}

/// Kubernetes' rule for the name of a webhook.
fn check_name(name: &str) -> Result<(), String> {
    let segments: Vec<&str> = name.split('.').collect();
    let is_label = |segment: &&str| {
        let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !segment.is_empty()
            && segment.len() <= 63
            && segment.bytes().all(is_inner)
            && !segment.starts_with('-')
            && !segment.ends_with('-')
    };
    match segments.len() >= 3 && segments.iter().all(is_label) {
        true => Ok(()),
        false => Err(format!(
            "name: Invalid value: {name:?}: should be a domain with at least three segments separated by dots"
        )),
    }
}

fn check_enum(field: &str, value: Option<&str>, allowed: &[&str]) -> Result<(), String> {
    match value {
        Some(value) if !allowed.contains(&value) => Err(format!(
            "{field} is {value:?}, but should be one of {}",
            allowed.join(", ")
        )),
        _ => Ok(()),
    }
}

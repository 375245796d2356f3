//! The spec of an access review, and its validation.

use std::collections::BTreeMap;

use serde::Deserialize;
use setpoint_api::User;
use setpoint_api::field::Errors;
use setpoint_api::selector::{FieldSelector, LabelSelector};

use crate::authorize::rule::nullable_list;
use crate::authorize::{AccessTarget, Attributes};

const ONE_OF: &str = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
const IN: &str = "In";
const NOT_IN: &str = "NotIn";
const EXISTS: &str = "Exists";
const DOES_NOT_EXIST: &str = "DoesNotExist";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    resource_attributes: Option<ResourceAttributes>,
    non_resource_attributes: Option<PathAttributes>,
    user: String,
    #[serde(deserialize_with = "nullable_list")]
    groups: Vec<String>,
    uid: String,
    extra: Option<BTreeMap<String, Vec<String>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourceAttributes {
    namespace: String,
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    name: String,
    field_selector: Option<Selector>,
    label_selector: Option<Selector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PathAttributes {
    path: String,
    verb: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Selector {
    raw_selector: String,
    #[serde(deserialize_with = "nullable_list")]
    requirements: Vec<Requirement>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    #[serde(deserialize_with = "nullable_list")]
    values: Vec<String>,
}

/// The spec as authorization attributes, and the errors of selectors that could not be parsed.
pub(super) struct ParsedSpec<'a> {
    spec: &'a Spec,
    fields: FieldSelector,
    pub(super) problems: Vec<&'static str>,
}

// === impl Spec ===

impl Spec {
    pub(super) fn subject(&self) -> User {
        User {
            name: self.user.clone(),
            uid: self.uid.clone(),
            groups: self.groups.clone(),
            extra: self.extra.clone().unwrap_or_default(),
        }
    }

    pub(super) fn validate(&self, errors: &Errors) {
        match (&self.resource_attributes, &self.non_resource_attributes) {
            (Some(_), Some(path)) => {
                let value = serde_json::json!({"Path": path.path, "Verb": path.verb});
                errors.at("spec").invalid(value, ONE_OF);
            }
            (None, None) => errors.at("spec").invalid(serde_json::Value::Null, ONE_OF),
            _ => {}
        }
    }

    pub(super) fn validate_subject(&self, errors: &Errors) {
        if self.user.is_empty() && self.groups.is_empty() {
            let detail = "at least one of user or group must be specified";
            errors.at("spec").at("user").invalid("", detail);
        }
    }

    pub(super) fn validate_selectors(&self, errors: &Errors) {
        let Some(attributes) = &self.resource_attributes else {
            return;
        };
        let errors = errors.at("spec.resourceAttributes");
        if let Some(selector) = &attributes.field_selector {
            selector.validate(&errors, "fieldSelector");
        }
        if let Some(selector) = &attributes.label_selector {
            selector.validate(&errors, "labelSelector");
        }
    }

    /// A LocalSubjectAccessReview must be about its own namespace, and not about a path.
    pub(super) fn validate_namespace(&self, namespace: &str, errors: &Errors) {
        if let Some(attributes) = &self.resource_attributes
            && attributes.namespace != namespace
        {
            let path = errors.at("spec.resourceAttributes.namespace");
            path.invalid(attributes.namespace.as_str(), "must match metadata.namespace");
        }
        if let Some(path) = &self.non_resource_attributes {
            let value = serde_json::json!({"Path": path.path, "Verb": path.verb});
            let at = errors.at("spec.nonResourceAttributes");
            at.invalid(value, "disallowed on this kind of request");
        }
    }
}

// === impl Selector ===

impl Selector {
    fn validate(&self, errors: &Errors, name: &str) {
        let at = errors.at(name);
        if !self.raw_selector.is_empty() && !self.requirements.is_empty() {
            let detail = "may not specified at the same time as requirements";
            at.at("rawSelector").invalid(self.raw_selector.as_str(), detail);
        }
        if self.raw_selector.is_empty() && self.requirements.is_empty() {
            let detail = format!(
                "when spec.resourceAttributes.{name} is specified, requirements or rawSelector is required"
            );
            at.at("requirements").required(&detail);
        }
        for (index, requirement) in self.requirements.iter().enumerate() {
            requirement.validate(&at.at("requirements").index(index), name == "fieldSelector");
        }
    }

    /// The selector of the requirements that can be converted, and whether all of them can.
    fn fields(&self) -> (FieldSelector, bool) {
        if self.requirements.is_empty() {
            let parsed = self.raw_selector.parse();
            let complete = parsed.is_ok();
            return (parsed.unwrap_or_default(), complete);
        }
        let terms: Vec<Option<String>> = self.requirements.iter().map(Requirement::term).collect();
        let complete = terms.iter().all(Option::is_some);
        let text = terms.into_iter().flatten().collect::<Vec<_>>().join(",");
        (text.parse().unwrap_or_default(), complete)
    }

    /// Whether some, and whether all requirements of a label selector are valid.
    fn labels(&self) -> (bool, bool) {
        if self.requirements.is_empty() {
            let parsed = self.raw_selector.parse::<LabelSelector>();
            return (parsed.is_ok(), parsed.is_ok());
        }
        let known =
            |one: &&Requirement| [IN, NOT_IN, EXISTS, DOES_NOT_EXIST].contains(&one.operator.as_str());
        let complete = self.requirements.iter().filter(known).count();
        (complete > 0, complete == self.requirements.len())
    }
}

impl Requirement {
    fn validate(&self, errors: &Errors, on_field: bool) {
        if on_field && self.key.is_empty() {
            errors.at("key").required("must be specified");
        }
        let values = errors.at("values");
        match self.operator.as_str() {
            IN | NOT_IN if self.values.is_empty() => {
                values.required("must be specified when `operator` is 'In' or 'NotIn'");
            }
            EXISTS | DOES_NOT_EXIST if !self.values.is_empty() => {
                values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            _ => {}
        }
    }

    /// The requirement as one term of a field selector, if possible.
    fn term(&self) -> Option<String> {
        let [value] = self.values.as_slice() else {
            return None;
        };
        let operator = match self.operator.as_str() {
            IN => "=",
            NOT_IN => "!=",
            _ => return None,
        };
        let escaped = value
            .replace('\\', "\\\\")
            .replace(',', "\\,")
            .replace('=', "\\=");
        Some(format!("{}{operator}{escaped}", self.key))
    }
}

// === impl ParsedSpec ===

impl<'a> ParsedSpec<'a> {
    pub(super) fn of(spec: &'a Spec) -> Self {
        let mut parsed = Self {
            spec,
            fields: FieldSelector::default(),
            problems: Vec::new(),
        };
        let Some(attributes) = &spec.resource_attributes else {
            return parsed;
        };
        if let Some(selector) = &attributes.field_selector {
            let (fields, complete) = selector.fields();
            match (complete, fields.is_empty()) {
                (true, _) => {}
                (false, true) => parsed
                    .problems
                    .push("spec.resourceAttributes.fieldSelector ignored due to parse error"),
                (false, false) => parsed
                    .problems
                    .push("spec.resourceAttributes.fieldSelector partially ignored due to parse error"),
            }
            parsed.fields = fields;
        }
        match attributes.label_selector.as_ref().map(Selector::labels) {
            Some((true, false)) => parsed
                .problems
                .push("spec.resourceAttributes.labelSelector partially ignored due to parse error"),
            Some((false, _)) => parsed
                .problems
                .push("spec.resourceAttributes.labelSelector ignored due to parse error"),
            Some((true, true)) | None => {}
        }
        parsed
    }

    pub(super) fn attributes(&self) -> Attributes<'_> {
        match (&self.spec.resource_attributes, &self.spec.non_resource_attributes) {
            (Some(resource), _) => Attributes {
                verb: &resource.verb,
                target: AccessTarget::Resource {
                    group: &resource.group,
                    resource: &resource.resource,
                    subresource: &resource.subresource,
                    namespace: &resource.namespace,
                    name: &resource.name,
                },
                version: &resource.version,
                fields: Some(&self.fields),
            },
            (None, Some(path)) => Attributes::new(&path.verb, AccessTarget::Path(&path.path)),
            (None, None) => Attributes::new("", AccessTarget::Path("")),
        }
    }
}

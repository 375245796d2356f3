//! What an access review asks, and whether it asks well.

use std::collections::BTreeMap;

use serde::Deserialize;
use setpoint_api::User;
use setpoint_api::field::Errors;
use setpoint_api::selector::{FieldSelector, LabelSelector};

use crate::authorize::rule::list;
use crate::authorize::{Attributes, Object};

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
    #[serde(deserialize_with = "list")]
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
    #[serde(deserialize_with = "list")]
    requirements: Vec<Requirement>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    #[serde(deserialize_with = "list")]
    values: Vec<String>,
}

/// The question in the words of access rules, and what of it could not be understood.
pub(super) struct Ask<'a> {
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
                let shown = serde_json::json!({"Path": path.path, "Verb": path.verb});
                errors.at("spec").invalid(shown, ONE_OF);
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

    /// A local review asks about its own namespace, and about no paths.
    pub(super) fn validate_namespace(&self, namespace: &str, errors: &Errors) {
        if let Some(attributes) = &self.resource_attributes
            && attributes.namespace != namespace
        {
            let path = errors.at("spec.resourceAttributes.namespace");
            path.invalid(attributes.namespace.as_str(), "must match metadata.namespace");
        }
        if let Some(path) = &self.non_resource_attributes {
            let shown = serde_json::json!({"Path": path.path, "Verb": path.verb});
            let at = errors.at("spec.nonResourceAttributes");
            at.invalid(shown, "disallowed on this kind of request");
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

    /// The selector of the requirements that are understood, and whether all of them are.
    fn fields(&self) -> (FieldSelector, bool) {
        if self.requirements.is_empty() {
            let parsed = self.raw_selector.parse();
            let understood = parsed.is_ok();
            return (parsed.unwrap_or_default(), understood);
        }
        let terms: Vec<Option<String>> = self.requirements.iter().map(Requirement::term).collect();
        let understood = terms.iter().all(Option::is_some);
        let text = terms.into_iter().flatten().collect::<Vec<_>>().join(",");
        (text.parse().unwrap_or_default(), understood)
    }

    /// Whether nothing, all or some of a label selector is understood.
    fn labels(&self) -> (bool, bool) {
        if self.requirements.is_empty() {
            let parsed = self.raw_selector.parse::<LabelSelector>();
            return (parsed.is_ok(), parsed.is_ok());
        }
        let known =
            |one: &&Requirement| [IN, NOT_IN, EXISTS, DOES_NOT_EXIST].contains(&one.operator.as_str());
        let understood = self.requirements.iter().filter(known).count();
        (understood > 0, understood == self.requirements.len())
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

    /// One term of a field selector, if it can be said as one.
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

// === impl Ask ===

impl<'a> Ask<'a> {
    pub(super) fn of(spec: &'a Spec) -> Self {
        let mut ask = Self {
            spec,
            fields: FieldSelector::default(),
            problems: Vec::new(),
        };
        let Some(attributes) = &spec.resource_attributes else {
            return ask;
        };
        if let Some(selector) = &attributes.field_selector {
            let (fields, understood) = selector.fields();
            match (understood, fields.is_empty()) {
                (true, _) => {}
                (false, true) => ask
                    .problems
                    .push("spec.resourceAttributes.fieldSelector ignored due to parse error"),
                (false, false) => ask
                    .problems
                    .push("spec.resourceAttributes.fieldSelector partially ignored due to parse error"),
            }
            ask.fields = fields;
        }
        match attributes.label_selector.as_ref().map(Selector::labels) {
            Some((true, false)) => ask
                .problems
                .push("spec.resourceAttributes.labelSelector partially ignored due to parse error"),
            Some((false, _)) => ask
                .problems
                .push("spec.resourceAttributes.labelSelector ignored due to parse error"),
            Some((true, true)) | None => {}
        }
        ask
    }

    pub(super) fn attributes(&self) -> Attributes<'_> {
        match (&self.spec.resource_attributes, &self.spec.non_resource_attributes) {
            (Some(asked), _) => Attributes {
                verb: &asked.verb,
                object: Object::Resource {
                    group: &asked.group,
                    resource: &asked.resource,
                    subresource: &asked.subresource,
                    namespace: &asked.namespace,
                    name: &asked.name,
                },
                fields: Some(&self.fields),
            },
            (None, Some(asked)) => Attributes::new(&asked.verb, Object::Path(&asked.path)),
            (None, None) => Attributes::new("", Object::Path("")),
        }
    }
}

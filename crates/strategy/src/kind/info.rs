//! [`KindInfo`]: the metadata of a kind, as discovery, the registry and the API server read it.

use setpoint_api::table::ColumnDefinition;
use setpoint_api::{ApiVerb, Gvk, Gvr};

use crate::strategy::{Rules, Scope, Subresource};

/// The metadata of a kind: names, scope, columns, subresources.
#[derive(Debug, Clone)]
pub struct KindInfo {
    pub gvk: Gvk,
    pub gvr: Gvr,
    /// The resource, in the storage version, under which objects are stored.
    pub storage: Gvr,
    /// `PodList`, for `Pod`.
    pub list_kind: String,
    pub names: ResourceNames,
    pub scope: Scope,
    pub columns: Vec<ColumnDefinition>,
    pub fields: Vec<SelectableField>,
    pub subresources: Vec<Subresource>,
    pub scale: Option<ScalePaths>,
    pub rules: Rules,
    /// Whether a CRD defines the kind: it has no strategic merge patch, and its list items have `kind` and
    /// `apiVersion`.
    pub is_custom: bool,
    /// The warning to every caller that uses this version, if it is deprecated.
    pub deprecation_warning: Option<String>,
}

/// The names of a kind's resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceNames {
    pub plural: String,
    pub singular: String,
    pub short: Vec<String>,
    pub categories: Vec<String>,
}

/// A selectable field: its label, and the paths of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectableField {
    pub label: String,
    /// The first path that has a value wins.
    pub paths: Vec<Vec<String>>,
    /// The value if no path has one.
    pub absent: &'static str,
    /// The label in the storage version.
    pub stored_as: String,
}

/// The paths that the scale subresource reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    pub replicas: Vec<String>,
    pub status_replicas: Vec<String>,
    /// The path of a label selector, as an object or as text.
    pub selector: Option<Vec<String>>,
}

// === impl KindInfo ===

impl KindInfo {
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Whether this version is the storage version.
    pub fn is_storage_version(&self) -> bool {
        self.rules.resource.stored && self.storage == self.gvr
    }

    /// Whether the main resource supports this verb.
    pub fn allows(&self, verb: ApiVerb) -> bool {
        self.rules.resource.verbs.contains(verb)
    }

    /// Whether objects of the kind can be read. Reviews and bindings can only be created.
    pub fn has_items(&self) -> bool {
        self.rules
            .resource
            .verbs
            .iter()
            .any(|verb| verb != ApiVerb::Create)
    }

    pub fn find_subresource(&self, name: &str) -> Option<Subresource> {
        let mut subresources = self.subresources.iter();
        subresources.find(|subresource| subresource.name == name).copied()
    }

    pub fn has_status(&self) -> bool {
        self.subresources.iter().any(Subresource::is_status)
    }

    /// The label of a selectable field in the storage version.
    pub fn stored_label<'a>(&'a self, label: &'a str) -> &'a str {
        let field = self.fields.iter().find(|field| field.label == label);
        field.map_or(label, |field| &field.stored_as)
    }

    /// Checks that a field selector may use this label; otherwise the error message.
    pub fn check_field(&self, label: &str) -> Result<(), String> {
        let plain = self.fields.is_empty() && !self.is_custom;
        let known = match label {
            "metadata.name" => true,
            "metadata.namespace" => plain || self.is_namespaced(),
            label => self.fields.iter().any(|field| field.label == label),
        };
        match (known, plain) {
            (true, _) => Ok(()),
            (false, false) => Err(self
                .rules
                .upstream
                .bad_field_label_message
                .replace("{quoted}", &format!("{label:?}"))
                .replace("{label}", label)),
            (false, true) => Err(format!(
                "{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )),
        }
    }
}

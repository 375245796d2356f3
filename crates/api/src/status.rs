//! [`Status`]: the error type of the API, and the body of some successful responses.
//!
//! Each kind of error has a constructor named after it. Messages are Kubernetes' own, to the letter: tools match on
//! them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::audit_annotation::AuditAnnotation;
use crate::field::FieldError;
use crate::gvk::{GroupResource, Gvk};

mod constructors;
#[cfg(test)]
mod tests;

/// The `Status` object of the API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub metadata: ListMeta,
    /// `Success` or `Failure`.
    pub status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    pub code: u16,
    /// Warnings for the caller besides the error. They are sent as headers, not in the body.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// For the audit event of the request.
    #[serde(skip)]
    pub audit_annotations: Vec<AuditAnnotation>,
}

/// The metadata of a list, and of a Status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<u64>,
}

/// The object that a Status is about, and the causes of the error (upstream: `StatusDetails`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One cause of an error, such as one invalid field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

// === impl Status ===

impl Status {
    /// The object as JSON, with its type fields.
    pub fn to_json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct TypedStatus<'a> {
            kind: &'static str,
            api_version: &'static str,
            #[serde(flatten)]
            status: &'a Status,
        }
        let typed = TypedStatus {
            kind: "Status",
            api_version: "v1",
            status: self,
        };
        serde_json::to_vec(&typed).expect("a status has only strings and numbers")
    }

    pub fn is_not_found(&self) -> bool {
        self.reason == "NotFound"
    }

    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// Whether the requested resource version has been compacted.
    pub fn is_expired(&self) -> bool {
        self.reason == "Expired" || self.reason == "Gone"
    }

    pub fn is_invalid(&self) -> bool {
        self.reason == "Invalid"
    }

    fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            status: "Failure".to_owned(),
            message: message.into(),
            reason: reason.to_owned(),
            code,
            ..Self::default()
        }
    }

    fn with_details(mut self, resource: &GroupResource, name: &str) -> Self {
        let details = self.details.get_or_insert_default();
        details.name = name.to_owned();
        details.group = resource.group.to_string();
        details.kind = resource.resource.to_string();
        self
    }

    fn with_kind_details(mut self, gvk: &Gvk, name: &str) -> Self {
        let details = self.details.get_or_insert_default();
        details.name = name.to_owned();
        details.group = gvk.group.to_string();
        details.kind = gvk.kind.to_string();
        self
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

// === impl StatusCause ===

impl From<&FieldError> for StatusCause {
    fn from(error: &FieldError) -> Self {
        Self {
            reason: error.error_type.reason().to_owned(),
            message: error.message.clone(),
            field: error.path.clone(),
        }
    }
}

//! The format of a recording.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::normalize::NormalizedResponse;
use crate::wire::Caller;

/// A sequence of requests with their expected responses.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Case {
    pub id: String,
    pub area: String,
    /// Sent first; their responses are not compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<Step>,
    pub steps: Vec<Step>,
    /// Sent at the end, even if a step fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleanup: Vec<Step>,
}

/// One request.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Step {
    pub method: String,
    pub path: String,
    pub headers: serde_json::Map<String, Value>,
    pub body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_from: Option<BodyFrom>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_gen: Option<BodyGen>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub once: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub wait_ms: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub retry_ms: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mask: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub status_only: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
}

/// The response to an earlier step, with changes.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct BodyFrom {
    pub step: usize,
    #[serde(default)]
    pub set: Vec<(String, Value)>,
    #[serde(default)]
    pub del: Vec<String>,
}

/// A long generated body.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct BodyGen {
    #[serde(default)]
    pub prefix: String,
    pub repeat: String,
    pub count: usize,
    #[serde(default)]
    pub suffix: String,
}

/// The expected response, with placeholders.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Expect {
    pub status: u16,
    #[serde(default)]
    pub headers: Value,
    #[serde(default)]
    pub body: Value,
}

// === impl Case ===

impl Case {
    /// Limits the time for which steps are retried.
    pub fn limit_retries(&mut self, limit_ms: u64) {
        for step in self
            .setup
            .iter_mut()
            .chain(&mut self.steps)
            .chain(&mut self.cleanup)
        {
            step.retry_ms = step.retry_ms.min(limit_ms);
        }
    }
}

// === impl Step ===

impl Step {
    pub(super) fn is_watch(&self) -> bool {
        let has_watch = |separator: &str| {
            self.path
                .split(separator)
                .skip(1)
                .filter_map(|rest| rest.strip_prefix("watch="))
                .any(|value| !value.starts_with("false") && !value.starts_with('0'))
        };
        has_watch("?") || has_watch("&") || self.path.contains("/watch/")
    }

    pub(super) fn caller(&self) -> Caller {
        match self.auth.as_deref() {
            None | Some("admin") => Caller::Owner,
            Some("none") => Caller::Anonymous,
            Some(header) => Caller::Header(header.to_owned()),
        }
    }
}

// === impl Expect ===

impl Expect {
    /// Expects this response.
    pub fn of(response: &NormalizedResponse) -> Self {
        Self {
            status: response.status,
            headers: response.headers.clone(),
            body: response.body.clone(),
        }
    }

    pub(super) fn to_response(&self) -> NormalizedResponse {
        NormalizedResponse {
            status: self.status,
            headers: self.headers.clone(),
            body: self.body.clone(),
            raw: Value::Null,
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

//! The words of a recording.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::normal::Seen;
use crate::wire::Caller;

/// Some requests with the answers that are wanted.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Case {
    pub id: String,
    pub area: String,
    /// Sent before; their answers are not compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<Step>,
    pub steps: Vec<Step>,
    /// Sent afterwards, come what may.
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

/// The answer of an earlier step, changed.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct BodyFrom {
    pub step: usize,
    #[serde(default)]
    pub set: Vec<(String, Value)>,
    #[serde(default)]
    pub del: Vec<String>,
}

/// A long body in few words.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct BodyGen {
    #[serde(default)]
    pub prefix: String,
    pub repeat: String,
    pub count: usize,
    #[serde(default)]
    pub suffix: String,
}

/// The answer that is wanted, with placeholders.
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
    /// Nothing is tried again for longer than this.
    pub fn limit_patience(&mut self, limit_ms: u64) {
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
        let asks = |separator: &str| {
            self.path
                .split(separator)
                .skip(1)
                .filter_map(|rest| rest.strip_prefix("watch="))
                .any(|value| !value.starts_with("false") && !value.starts_with('0'))
        };
        asks("?") || asks("&") || self.path.contains("/watch/")
    }

    pub(super) fn caller(&self) -> Caller {
        match self.auth.as_deref() {
            None | Some("admin") => Caller::Owner,
            Some("none") => Caller::Nobody,
            Some(header) => Caller::Header(header.to_owned()),
        }
    }
}

// === impl Expect ===

impl Expect {
    /// What was seen becomes what is wanted.
    pub fn of(seen: &Seen) -> Self {
        Self {
            status: seen.status,
            headers: seen.headers.clone(),
            body: seen.body.clone(),
        }
    }

    pub(super) fn seen(&self) -> Seen {
        Seen {
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

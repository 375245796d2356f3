//! Metric operations that a hook writes to `METRICS_PATH`: JSON objects, one after another.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::LabelSet;

/// One operation.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct MetricOperation {
    pub(crate) name: String,
    /// `add`, `set`, `observe` or `expire`.
    pub(crate) action: String,
    pub(crate) value: f64,
    pub(crate) buckets: Vec<f64>,
    labels: BTreeMap<String, String>,
    pub(crate) group: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RawOperation {
    #[serde(default)]
    name: String,
    add: Option<f64>,
    set: Option<f64>,
    value: Option<f64>,
    buckets: Option<Vec<f64>>,
    labels: Option<BTreeMap<String, String>>,
    group: Option<String>,
    action: Option<String>,
}

/// The operations in a file. The error has all that are invalid.
pub(crate) fn parse_operations(json: &[u8]) -> Result<Vec<MetricOperation>, String> {
    let (mut operations, mut errors) = (Vec::new(), Vec::new());
    for (at, raw) in serde_json::Deserializer::from_slice(json)
        .into_iter::<RawOperation>()
        .enumerate()
    {
        let raw = raw.map_err(|error| format!("got bad metrics: {error}"))?;
        match raw.convert() {
            Ok(operation) => operations.push(operation),
            Err(error) => errors.push(format!("operation {at}: {error}")),
        }
    }
    match errors.is_empty() {
        true => Ok(operations),
        false => Err(format!("got bad metrics: {}", errors.join("; "))),
    }
}

impl RawOperation {
    fn convert(self) -> Result<MetricOperation, String> {
        let (action, value) = match (self.set, self.add) {
            (Some(_), Some(_)) => return Err("'set' and 'add' are mutual exclusive".to_owned()),
            (Some(set), None) => (Some("set".to_owned()), Some(set)),
            (None, Some(add)) => (Some("add".to_owned()), Some(add)),
            (None, None) => (self.action, self.value),
        };
        let action = action.ok_or("one of: 'action', 'set' or 'add' is required")?;
        let group = self.group.filter(|group| !group.is_empty());
        let is_supported = match group {
            None => matches!(action.as_str(), "set" | "add" | "observe"),
            Some(_) => matches!(action.as_str(), "expire" | "set" | "add"),
        };
        if !is_supported {
            return Err(format!("unsupported action '{action}'"));
        }
        let needs_value = action != "expire";
        if needs_value && self.name.is_empty() {
            return Err("'name' is required".to_owned());
        }
        if needs_value && value.is_none() {
            return Err(format!("'value' is required for action '{action}'"));
        }
        if action == "observe" && self.buckets.is_none() {
            return Err("'buckets' is required for action 'observe'".to_owned());
        }
        Ok(MetricOperation {
            name: self.name,
            action,
            value: value.unwrap_or_default(),
            buckets: self.buckets.unwrap_or_default(),
            labels: self.labels.unwrap_or_default(),
            group,
        })
    }
}

impl MetricOperation {
    pub(super) fn is_expiry(&self) -> bool {
        self.action == "expire"
    }

    /// Its labels, with the name of the hook.
    pub(super) fn labels(&self, hook: &str) -> LabelSet {
        let mut labels = self.labels.clone();
        labels.insert("hook".to_owned(), hook.to_owned());
        LabelSet(labels)
    }
}

//! Values from decoded JSON and YAML.

use super::Value;

/// The Go type that numbers of data get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberType {
    /// Every number is a `float64`, as Go's `encoding/json` and `sigs.k8s.io/yaml` decode them.
    Float64,
    /// Integers are `int64`, other numbers `float64`.
    Int64,
}

impl Value {
    /// The value of decoded JSON or YAML.
    pub fn from_json(json: &serde_json::Value, numbers: NumberType) -> Self {
        match json {
            serde_json::Value::Null => Self::Nil,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(value) if numbers == NumberType::Int64 => Self::Int64(value),
                _ => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => Self::string(text.as_str()),
            serde_json::Value::Array(items) => {
                Self::list(items.iter().map(|item| Self::from_json(item, numbers)).collect())
            }
            serde_json::Value::Object(entries) => {
                let entry = |(key, value): (&String, &serde_json::Value)| {
                    (key.clone(), Self::from_json(value, numbers))
                };
                Self::map(entries.iter().map(entry).collect())
            }
        }
    }
}

impl From<&serde_json::Value> for Value {
    fn from(json: &serde_json::Value) -> Self {
        Self::from_json(json, NumberType::Float64)
    }
}

//! Placeholders in an object: fields set by the server, and sorting of unordered lists.

use serde_json::{Map, Value, json};

use super::Normalizer;

const VERSION_FIELDS: &[&str] = &["resourceVersion", "storedResourceVersion"];
const PORT_FIELDS: &[&str] = &["nodePort", "healthCheckNodePort"];
const AGE_COLUMNS: &[&str] = &["Age", "Last Seen", "First Seen", "Duration", "Last Schedule"];

impl Normalizer {
    /// Remembers the generated names in a response.
    pub(super) fn learn(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(entry) = generated(fields)
                    && !self.names.iter().any(|(name, _)| *name == entry.0)
                {
                    self.names.push(entry);
                }
                fields.values().for_each(|value| self.learn(value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn(item)),
            _ => {}
        }
    }

    /// The value with placeholders.
    pub fn value(&self, value: &Value) -> Value {
        match value {
            Value::Object(fields) if is_table(fields) => self.table(fields),
            Value::Object(fields) => self.fields(fields),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::String(text) => Value::String(self.text(text)),
            other => other.clone(),
        }
    }

    fn fields(&self, fields: &Map<String, Value>) -> Value {
        fields
            .iter()
            .map(|(name, value)| match server_field(name, value) {
                Some(placeholder) => (name.clone(), json!(placeholder)),
                None => (self.text(name), self.value(value)),
            })
            .collect::<Map<_, _>>()
            .into()
    }

    /// A Table without column descriptions, which are not compared, and with placeholders for ages.
    fn table(&self, fields: &Map<String, Value>) -> Value {
        let mut table = fields.clone();
        // The recordings do not distinguish absent from empty columns.
        if table["columnDefinitions"].is_null() {
            table["columnDefinitions"] = Value::Array(Vec::new());
        }
        let mut ages = Vec::new();
        for column in items(table.get_mut("columnDefinitions")) {
            let name = column["name"].as_str().unwrap_or_default();
            ages.push(AGE_COLUMNS.contains(&name));
            if let Some(column) = column.as_object_mut() {
                column.shift_remove("description");
            }
        }
        for row in items(table.get_mut("rows")) {
            let cells = items(row.get_mut("cells")).iter_mut();
            for (cell, _) in cells.zip(&ages).filter(|(_, is_age)| **is_age) {
                if cell.as_str().is_some_and(is_age) {
                    *cell = json!("<age>");
                }
            }
        }
        self.fields(&table)
    }
}

/// Sorts lists whose order is not specified, in the expected and the actual value.
pub(crate) fn sort_unordered(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let is_rules = fields.contains_key("incomplete");
            for (name, value) in fields.iter_mut() {
                sort_unordered(value);
                let is_unordered = name == "managedFields"
                    || is_rules && name.ends_with("ourceRules")
                    || name == "causes" && are_conflicts(value);
                if let (true, Value::Array(items)) = (is_unordered, value) {
                    items.sort_by_cached_key(sorted_text);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(sort_unordered),
        _ => {}
    }
}

/// Whether these are the causes of an apply conflict, which Kubernetes lists in the order of a Go map.
fn are_conflicts(causes: &Value) -> bool {
    let is_conflict = |cause: &Value| cause["reason"] == "FieldManagerConflict";
    causes
        .as_array()
        .is_some_and(|causes| causes.iter().all(is_conflict))
}

/// The JSON text with sorted fields.
fn sorted_text(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    value.to_string()
}

fn is_table(fields: &Map<String, Value>) -> bool {
    fields.get("kind").is_some_and(|kind| kind == "Table") && fields.contains_key("columnDefinitions")
}

fn items(value: Option<&mut Value>) -> &mut [Value] {
    value.and_then(Value::as_array_mut).map_or(&mut [], |items| items)
}

/// The placeholder of a field that the server sets.
fn server_field(name: &str, value: &Value) -> Option<&'static str> {
    let text = value.as_str().unwrap_or_default();
    let is_number = text.starts_with(|letter: char| ('1'..='9').contains(&letter))
        && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_node_port = value.as_u64().is_some_and(|port| (30000..=32767).contains(&port));
    match name {
        _ if VERSION_FIELDS.contains(&name) && is_number => Some("<rv>"),
        _ if PORT_FIELDS.contains(&name) && is_node_port => Some("<port>"),
        "continue" if !text.is_empty() => Some("<continue>"),
        "token" if text.matches('.').count() == 2 => Some("<token>"),
        _ => None,
    }
}

/// A generated name and its placeholder.
fn generated(fields: &Map<String, Value>) -> Option<(String, String)> {
    if fields.get("kind").is_some_and(|kind| kind == "Status") {
        return None;
    }
    let metadata = fields.get("metadata")?.as_object()?;
    let prefix = metadata.get("generateName")?.as_str()?;
    let name = metadata.get("name")?.as_str()?;
    let suffix = name.strip_prefix(prefix)?;
    (!prefix.is_empty() && !suffix.is_empty()).then(|| (name.to_owned(), format!("{prefix}<rand>")))
}

/// Such as `5s` or `3m20s`.
fn is_age(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let has_unit = matches!(
            rest.as_bytes().get(digits),
            Some(b's' | b'm' | b'h' | b'd' | b'y')
        );
        if digits == 0 || !has_unit {
            return false;
        }
        rest = &rest[digits + 1..];
    }
    !text.is_empty()
}

//! Normalization: values that differ from run to run (uids, times, resourceVersions, generated names, addresses, tokens)
//! become placeholders.
//!
//! A [`Normalizer`] belongs to one case: it remembers generated names and replaces them in later responses. `text` has the
//! patterns inside strings, `value` the fields of objects.

mod text;
mod value;
mod yaml_table;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::wire::Response;

pub(crate) use value::sort_unordered;
pub(crate) use yaml_table::without_descriptions;

/// The normalizer of one case.
#[derive(Debug)]
pub struct Normalizer {
    now: Timestamp,
    /// Generated names and their placeholders.
    names: Vec<(String, String)>,
    /// Values of `generateName` in requests: an error message contains the generated name, too.
    generated: Vec<String>,
}

/// A response with placeholders, as it is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct NormalizedResponse {
    pub status: u16,
    pub headers: Value,
    pub body: Value,
    /// The original body, for requests that refer to it.
    pub raw: Value,
}

/// The headers that are part of the contract.
const CONTENT_TYPE: &str = "Content-Type";
const WARNING: &str = "Warning";
const RETRY_AFTER: &str = "Retry-After";
const ETAG: &str = "ETag";

/// The number of characters of a plain text body that are compared.
const TEXT_MAX: usize = 4000;
/// Larger request bodies are not searched for `generateName`.
const GENERATE_NAME_BODY_MAX: usize = 100_000;

impl Normalizer {
    pub fn new(now: Timestamp) -> Self {
        Self {
            now,
            names: Vec::new(),
            generated: Vec::new(),
        }
    }

    /// Records the values of `generateName` in a request.
    pub fn note_generate_names(&mut self, body: &str) {
        if body.len() < GENERATE_NAME_BODY_MAX {
            self.generated.extend(text::generate_names(body));
        }
    }

    /// The response with placeholders; of a watch, the list of its events.
    pub fn normalize(&mut self, response: &Response, is_watch: bool) -> NormalizedResponse {
        let raw = parse(response, is_watch);
        let body = match &raw {
            Some(object) => {
                self.learn(object);
                self.value(object)
            }
            None => self.opaque(response),
        };
        NormalizedResponse {
            status: response.status,
            headers: self.headers(response),
            body,
            raw: raw.unwrap_or_default(),
        }
    }

    fn headers(&self, response: &Response) -> Value {
        let mut headers = Map::new();
        for name in [CONTENT_TYPE, RETRY_AFTER] {
            if let Some(value) = response.header(name) {
                headers.insert(name.to_owned(), json!(value));
            }
        }
        let warnings: Vec<String> = response.all(WARNING).map(|text| self.text(text)).collect();
        if !warnings.is_empty() {
            headers.insert(WARNING.to_owned(), json!(warnings));
        }
        if response.header(ETAG).is_some() {
            headers.insert(ETAG.to_owned(), json!("<present>"));
        }
        Value::Object(headers)
    }

    /// A body that is not JSON.
    fn opaque(&self, response: &Response) -> Value {
        let kind = response.header(CONTENT_TYPE).unwrap_or_default();
        if response.body.is_empty() {
            Value::Null
        } else if kind.contains("protobuf") || kind.contains("cbor") {
            json!("<binary>")
        } else {
            let text = self.text(&response.text());
            let limit = if kind.contains("json") {
                usize::MAX
            } else {
                TEXT_MAX
            };
            json!(text.chars().take(limit).collect::<String>())
        }
    }
}

fn parse(response: &Response, is_watch: bool) -> Option<Value> {
    let is_json = response.header(CONTENT_TYPE)?.contains("json");
    if !is_json || response.body.is_empty() {
        return None;
    }
    if !(is_watch && response.status == 200) {
        return response.json();
    }
    let text = std::str::from_utf8(&response.body).ok()?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let events: Option<Vec<Value>> = lines.map(|line| serde_json::from_str(line).ok()).collect();
    events.map(Value::Array)
}

#[cfg(test)]
mod tests;

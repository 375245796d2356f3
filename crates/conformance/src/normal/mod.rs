//! What differs from run to run becomes a placeholder: ids, times, versions, generated names, addresses, tokens.
//!
//! One [`Normal`] belongs to one case: it learns the names that the server made up and knows them again in later answers.
//! `text` has the shapes inside a string, `value` the fields of a document.

mod text;
mod value;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::wire::Answer;

pub(crate) use value::arrange;

/// What a case has learned so far.
#[derive(Debug)]
pub struct Normal {
    now: Timestamp,
    /// Generated names and how they are shown.
    names: Vec<(String, String)>,
    /// Beginnings of names that were asked for; a refusal names the generated name, too.
    generated: Vec<String>,
}

/// An answer in the form that is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub status: u16,
    pub headers: Value,
    pub body: Value,
    /// The document as it came, for requests that build on it.
    pub raw: Value,
}

/// The headers that are part of the contract.
const CONTENT_TYPE: &str = "Content-Type";
const WARNING: &str = "Warning";
const RETRY_AFTER: &str = "Retry-After";
const ETAG: &str = "ETag";

/// So much of a text is compared.
const TEXT_MAX: usize = 4000;
/// A body beyond this is not searched for names to come.
const NAMES_IN_MAX: usize = 100_000;

impl Normal {
    pub fn new(now: Timestamp) -> Self {
        Self {
            now,
            names: Vec::new(),
            generated: Vec::new(),
        }
    }

    /// Notes what a request asks the server to generate.
    pub fn asked(&mut self, body: &str) {
        if body.len() < NAMES_IN_MAX {
            self.generated.extend(text::generate_names(body));
        }
    }

    /// The comparable form of an answer; of a watch, the list of its events.
    pub fn answer(&mut self, answer: &Answer, is_watch: bool) -> Seen {
        let raw = parse(answer, is_watch);
        let body = match &raw {
            Some(document) => {
                self.learn(document);
                self.value(document)
            }
            None => self.opaque(answer),
        };
        Seen {
            status: answer.status,
            headers: self.headers(answer),
            body,
            raw: raw.unwrap_or_default(),
        }
    }

    fn headers(&self, answer: &Answer) -> Value {
        let mut headers = Map::new();
        for name in [CONTENT_TYPE, RETRY_AFTER] {
            if let Some(value) = answer.header(name) {
                headers.insert(name.to_owned(), json!(value));
            }
        }
        let warnings: Vec<String> = answer.all(WARNING).map(|text| self.text(text)).collect();
        if !warnings.is_empty() {
            headers.insert(WARNING.to_owned(), json!(warnings));
        }
        if answer.header(ETAG).is_some() {
            headers.insert(ETAG.to_owned(), json!("<present>"));
        }
        Value::Object(headers)
    }

    /// A body that is no JSON.
    fn opaque(&self, answer: &Answer) -> Value {
        let kind = answer.header(CONTENT_TYPE).unwrap_or_default();
        if answer.body.is_empty() {
            Value::Null
        } else if kind.contains("protobuf") || kind.contains("cbor") {
            json!("<binary>")
        } else {
            let text = self.text(&answer.text());
            let limit = if kind.contains("json") {
                usize::MAX
            } else {
                TEXT_MAX
            };
            json!(text.chars().take(limit).collect::<String>())
        }
    }
}

fn parse(answer: &Answer, is_watch: bool) -> Option<Value> {
    let is_json = answer.header(CONTENT_TYPE)?.contains("json");
    if !is_json || answer.body.is_empty() {
        return None;
    }
    if !(is_watch && answer.status == 200) {
        return answer.json();
    }
    let text = std::str::from_utf8(&answer.body).ok()?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let events: Option<Vec<Value>> = lines.map(|line| serde_json::from_str(line).ok()).collect();
    events.map(Value::Array)
}

#[cfg(test)]
mod tests;

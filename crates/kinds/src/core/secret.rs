//! Secret: confidential data for pods. Its data may be marked immutable.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldLabel, FieldRef, Names, RequestFacts, Strategy, meta, name};

use super::config_map::decoded_len;
use crate::shared::resources;

const MAX_BYTES: usize = 1024 * 1024;
const OPAQUE: &str = "Opaque";
const ACCOUNT_ANNOTATION: &str = "kubernetes.io/service-account.name";
const IMMUTABLE: &str = "field is immutable when `immutable` is set";

#[derive(Debug)]
pub struct Secret;

impl Strategy for Secret {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "Secret");
    const NAMES: Names = Names::new("secrets", "secret");
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Type", |secret, _| columns::or_empty(&secret.at(fields::TYPE)))
            .description("The type."),
        Column::text("Data", |secret, _| {
            let entries = secret.at(fields::DATA).len();
            Cell::from(i64::try_from(entries).expect("entries fit into memory"))
        })
        .description("The number of entries."),
        columns::AGE,
    ];
    const FIELDS: &'static [FieldLabel] = &[FieldLabel::new("type", &[&[fields::TYPE]])];

    fn default_fields(secret: &mut Tree) {
        merge_string_data(secret);
        secret.set_default(fields::TYPE, OPAQUE);
    }

    fn prepare_create(_secret: &mut Tree, _facts: &RequestFacts) {}

    fn prepare_update(_secret: &mut Tree, _old: &Tree, _facts: &RequestFacts) {}

    fn validate(secret: &FieldRef<'_>, _facts: &RequestFacts) {
        let data = secret.at(fields::DATA);
        let mut bytes = 0;
        for (key, value) in data.entries() {
            name::report(key, name::config_key(key), value.errors());
            bytes += decoded_len(value.str());
        }
        if bytes > MAX_BYTES {
            data.too_long(MAX_BYTES);
        }
        validate_type(secret, &data);
    }

    fn validate_for_update(_secret: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {}

    fn validate_update(secret: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        secret.at(fields::TYPE).immutable(&old.at(fields::TYPE));
        if old.at(fields::IMMUTABLE).bool() {
            if !secret.at(fields::IMMUTABLE).bool() {
                secret.at(fields::IMMUTABLE).forbidden(IMMUTABLE);
            }
            if !secret.at(fields::DATA).is_same(&old.at(fields::DATA)) {
                secret.at(fields::DATA).forbidden(IMMUTABLE);
            }
        }
        Self::validate(secret, facts);
    }

    fn warnings(secret: &FieldRef<'_>, _old: Option<&FieldRef<'_>>) -> Vec<String> {
        if secret.at(fields::TYPE).str() != "kubernetes.io/tls" {
            return Vec::new();
        }
        let lacks = |key: &str| {
            let text = decode(&secret.at(fields::DATA).key(key));
            !text.windows(11).any(|part| part == b"-----BEGIN ")
        };
        let found = [("tls.crt", "certificate"), ("tls.key", "key")]
            .into_iter()
            .find(|(key, _)| lacks(key));
        let warning = found.map(|(_, input)| format!("tls: failed to find any PEM data in {input} input"));
        warning.into_iter().collect()
    }
}

/// Moves `stringData` into `data`, where it replaces entries of the same key.
fn merge_string_data(secret: &mut Tree) {
    let Some(Tree::Map(texts)) = secret.take(&[fields::STRING_DATA]) else {
        return;
    };
    let data = secret.child(fields::DATA).map_or_default();
    for (key, text) in texts.iter() {
        data.insert(key, STANDARD.encode(text.as_str().unwrap_or_default()));
    }
    resources::sort(data);
}

fn validate_type(secret: &FieldRef<'_>, data: &FieldRef<'_>) {
    match secret.at(fields::TYPE).str() {
        "kubernetes.io/service-account-token" => {
            let account = meta::entry(secret.value(), fields::ANNOTATIONS, ACCOUNT_ANNOTATION);
            if account.unwrap_or_default().is_empty() {
                let annotations = secret.at(fields::METADATA).at(fields::ANNOTATIONS);
                annotations.errors().key(ACCOUNT_ANNOTATION).required("");
            }
        }
        "kubernetes.io/dockercfg" => require_json(&data.key(".dockercfg")),
        "kubernetes.io/dockerconfigjson" => require_json(&data.key(".dockerconfigjson")),
        "kubernetes.io/basic-auth" => {
            let parts = [data.key("username"), data.key("password")];
            if !parts.iter().any(FieldRef::is_set) {
                parts.iter().for_each(|part| part.required(""));
            }
        }
        "kubernetes.io/ssh-auth" => _ = data.key("ssh-privatekey").require(),
        "kubernetes.io/tls" => {
            for part in ["tls.crt", "tls.key"].map(|key| data.key(key)) {
                if !part.is_set() {
                    part.required("");
                }
            }
        }
        _ => {}
    }
}

/// Reports an entry that is missing or not a JSON object. The message does not contain its value.
fn require_json(entry: &FieldRef<'_>) {
    if !entry.is_set() {
        return entry.required("");
    }
    let detail = match setpoint_codec::json::parse(&decode(entry)) {
        Ok(Tree::Map(_) | Tree::Null) => return,
        Ok(other) => format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            other.type_name()
        ),
        Err(error) => error.to_string(),
    };
    entry.invalid_as("<secret contents redacted>", &detail);
}

fn decode(entry: &FieldRef<'_>) -> Vec<u8> {
    STANDARD.decode(entry.str()).unwrap_or_default()
}

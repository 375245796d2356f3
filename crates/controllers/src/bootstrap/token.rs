//! A bootstrap token: its expiration and its signatures. Pure.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use ring::hmac;
use serde::Deserialize;
use serde_json::json;
use setpoint_api::Stored;

/// The namespace of bootstrap tokens.
pub(super) const NAMESPACE: &str = "kube-system";
const TYPE: &str = "bootstrap.kubernetes.io/token";
const NAME_PREFIX: &str = "bootstrap-token-";
/// The prefix of the ConfigMap keys that hold signatures; the token id follows.
pub(super) const SIGNATURE_PREFIX: &str = "jws-kubeconfig-";

/// The Secret of a bootstrap token.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Token {
    data: BTreeMap<String, ByteString>,
}

/// Whether the object is a bootstrap token, by its namespace and its type.
pub(super) fn is_token(object: &Stored) -> bool {
    object.key().namespace() == NAMESPACE && object.field("type") == Some(TYPE)
}

// === impl Token ===

impl Token {
    /// When it expires: the distant past if the value is not a time, `None` if it never does.
    pub(super) fn expiration(&self) -> Option<Timestamp> {
        let text = self.text("expiration");
        (!text.is_empty()).then(|| text.parse().unwrap_or(Timestamp::MIN))
    }

    /// Its id and its secret, if it may sign at this time.
    pub(super) fn for_signing(&self, name: &str, now: Timestamp) -> Option<(&str, &str)> {
        let (id, secret) = (self.text("token-id"), self.text("token-secret"));
        let named = name.strip_prefix(NAME_PREFIX) == Some(id);
        let holds = self.expiration().is_none_or(|expiration| now < expiration);
        let may_sign = self.text("usage-bootstrap-signing") == "true";
        (named && !id.is_empty() && !secret.is_empty() && holds && may_sign).then_some((id, secret))
    }

    fn text(&self, key: &str) -> &str {
        let value = self.data.get(key);
        value
            .and_then(|value| str::from_utf8(&value.0).ok())
            .unwrap_or_default()
    }
}

/// The detached JWS (RFC 7515) of a text with a token.
pub(super) fn sign(content: &str, id: &str, secret: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(json!({"alg": "HS256", "kid": id}).to_string());
    let payload = URL_SAFE_NO_PAD.encode(content);
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("{header}.{payload}").as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(tag))
}

/// The data of the ConfigMap with its signatures replaced by those of these tokens.
pub(super) fn signed(
    data: &BTreeMap<String, String>,
    content: &str,
    tokens: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let rest = data
        .iter()
        .filter(|(name, _)| !name.starts_with(SIGNATURE_PREFIX));
    let mut signed: BTreeMap<String, String> =
        rest.map(|(name, value)| (name.clone(), value.clone())).collect();
    let signatures = tokens.iter();
    signed.extend(
        signatures.map(|(id, secret)| (format!("{SIGNATURE_PREFIX}{id}"), sign(content, id, secret))),
    );
    signed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(rows: &[(&str, &str)]) -> Token {
        let data = rows.iter();
        let data = data.map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        Token { data: data.collect() }
    }

    #[track_caller]
    fn check(name: &str, rows: &[(&str, &str)], expected: Option<(&str, &str)>) {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let whole = [
            &[
                ("token-id", "abcdef"),
                ("token-secret", "secret"),
                ("usage-bootstrap-signing", "true"),
            ],
            rows,
        ];
        assert_eq!(token(&whole.concat()).for_signing(name, now), expected);
    }

    #[test]
    fn a_token_signs_if_its_usage_allows_it_and_it_has_not_expired() {
        let good = Some(("abcdef", "secret"));
        check("bootstrap-token-abcdef", &[], good);
        check("bootstrap-token-other", &[], None);
        check(
            "bootstrap-token-abcdef",
            &[("expiration", "2026-01-02T00:00:00Z")],
            good,
        );
        check(
            "bootstrap-token-abcdef",
            &[("expiration", "2026-01-01T00:00:00Z")],
            None,
        );
        check("bootstrap-token-abcdef", &[("expiration", "soon")], None);
        check(
            "bootstrap-token-abcdef",
            &[("usage-bootstrap-signing", "yes")],
            None,
        );
        check("bootstrap-token-abcdef", &[("token-secret", "")], None);
    }

    /// Key and text are upstream's, so that the signature can be compared.
    #[test]
    fn a_signature_equals_upstreams() {
        assert_eq!(
            sign(
                "Hello from the other side. I must have called a thousand times.",
                "joshua",
                "my voice is my passcode"
            ),
            "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"
        );
    }

    #[test]
    fn signatures_of_deleted_tokens_are_removed() {
        let map = |rows: &[(&str, &str)]| -> BTreeMap<String, String> {
            let rows = rows.iter();
            rows.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        let data = map(&[("kubeconfig", "x"), ("jws-kubeconfig-old", "y"), ("other", "z")]);
        let names: Vec<String> = signed(&data, "x", &map(&[("new", "secret")]))
            .into_keys()
            .collect();
        assert_eq!(names, ["jws-kubeconfig-new", "kubeconfig", "other"]);
    }
}

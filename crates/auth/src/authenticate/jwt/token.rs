//! A JSON Web Token in compact form (RFC 7519), split and decoded, before its signature is verified.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A token. Nothing in it may be trusted until its signature is verified.
#[derive(Debug)]
pub(super) struct Token<'a> {
    pub(super) header: Header,
    pub(super) claims: Map<String, Value>,
    /// The signed bytes.
    pub(super) signed: &'a [u8],
    pub(super) signature: Vec<u8>,
}

/// The header of a token (RFC 7515).
#[derive(Debug, Deserialize)]
pub(super) struct Header {
    pub(super) alg: String,
    #[serde(default)]
    pub(super) kid: String,
}

impl<'a> Token<'a> {
    /// Splits and decodes a token; `None` if the text is none.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        Some(Self {
            header: setpoint_api::json::from_slice(&decode(header)?).ok()?,
            claims: setpoint_api::json::from_slice(&decode(claims)?).ok()?,
            signed: signed.as_bytes(),
            signature: decode(signature)?,
        })
    }

    /// The issuer that the token claims. Google's may lack the scheme.
    pub(super) fn issuer(&self) -> &str {
        match self.claims.get("iss").and_then(Value::as_str).unwrap_or_default() {
            "accounts.google.com" => "https://accounts.google.com",
            issuer => issuer,
        }
    }

    /// The audiences, of which there may be one as a string or several as a list.
    pub(super) fn audiences(&self) -> Vec<&str> {
        match self.claims.get("aud") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// A time claim, in seconds since the epoch.
    pub(super) fn seconds(&self, claim: &str) -> Option<i64> {
        let value = self.claims.get(claim)?;
        value
            .as_i64()
            .or_else(|| value.as_f64().map(|seconds| seconds as i64))
    }
}

//! The claims of a service account token.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

/// The claims of a JWT. Times are seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Claims {
    /// The audiences that the token is valid for.
    #[serde(
        rename = "aud",
        deserialize_with = "one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub audiences: Vec<String>,
    #[serde(rename = "exp", skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
    #[serde(rename = "iat", skip_serializing_if = "Option::is_none")]
    pub issued: Option<i64>,
    #[serde(rename = "iss")]
    pub issuer: String,
    /// The token id.
    #[serde(rename = "jti", skip_serializing_if = "String::is_empty")]
    pub id: String,
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Kubernetes,
    #[serde(rename = "nbf", skip_serializing_if = "Option::is_none")]
    pub not_before: Option<i64>,
    #[serde(rename = "sub")]
    pub subject: String,
}

/// The service account of the token, and the object it is bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kubernetes {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Ref>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Ref>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Ref>,
    #[serde(rename = "serviceaccount")]
    pub service_account: Ref,
    /// For a token with extended expiration: the requested expiration, after which its use is reported.
    #[serde(rename = "warnafter", skip_serializing_if = "Option::is_none")]
    pub warn_after: Option<i64>,
}

/// An object by name and UID.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ref {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// The tolerated clock skew between two machines.
pub const LEEWAY_SECONDS: i64 = 60;

impl Claims {
    /// Checks that the token is valid at this time; if not, returns the message.
    pub fn check_time(&self, now: Timestamp) -> Result<(), &'static str> {
        let now = now.as_second();
        if self.not_before.is_some_and(|from| now + LEEWAY_SECONDS < from) {
            return Err("service account token is not valid yet");
        }
        if self.expires.is_some_and(|until| now - LEEWAY_SECONDS > until) {
            return Err("service account token has expired");
        }
        if self.issued.is_some_and(|at| now + LEEWAY_SECONDS < at) {
            return Err("service account token is issued in the future");
        }
        Ok(())
    }
}

/// An audience may be a string or a list.
fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(from)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(issued: i64, expires: i64, now: i64, expected: Result<(), &str>) {
        let claims = Claims {
            issued: Some(issued),
            not_before: Some(issued),
            expires: Some(expires),
            ..Claims::default()
        };
        assert_eq!(claims.check_time(Timestamp::from_second(now).unwrap()), expected);
    }

    #[test]
    fn a_token_is_valid_between_its_times() {
        check(1000, 4600, 1000, Ok(()));
        check(1000, 4600, 4600, Ok(()));
        check(1000, 4600, 4661, Err("service account token has expired"));
        check(1000, 4600, 939, Err("service account token is not valid yet"));
    }

    #[test]
    fn clocks_may_be_a_minute_apart() {
        check(1000, 4600, 940, Ok(()));
        check(1000, 4600, 4660, Ok(()));
    }

    #[test]
    fn an_audience_may_be_a_string() {
        let one: Claims = serde_json::from_str(r#"{"aud":"a"}"#).unwrap();
        let many: Claims = serde_json::from_str(r#"{"aud":["a"]}"#).unwrap();
        assert_eq!(one.audiences, ["a"]);
        assert_eq!(one, many);
    }
}

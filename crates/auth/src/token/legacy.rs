//! Tokens that are kept in secrets and never end.
//!
//! They are made for secrets of the type `kubernetes.io/service-account-token` and hold as long as the secret has them.
//! They name no audience: they are for this server.
//!
//! The claims are those of `pkg/serviceaccount/legacy.go` in Kubernetes.

use serde::{Deserialize, Serialize};

use crate::service_account;

/// Who issues these tokens, whatever the server is called.
pub const ISSUER: &str = "kubernetes/serviceaccount";

/// What such a token says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LegacyClaims {
    #[serde(rename = "iss")]
    pub issuer: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    pub namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    pub secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    pub account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    pub account_uid: String,
    #[serde(rename = "sub")]
    pub subject: String,
}

impl LegacyClaims {
    /// The claims of the token in a secret of a service account.
    pub fn new(namespace: &str, secret: &str, account: &str, account_uid: &str) -> Self {
        Self {
            issuer: ISSUER.to_owned(),
            namespace: namespace.to_owned(),
            secret: secret.to_owned(),
            account: account.to_owned(),
            account_uid: account_uid.to_owned(),
            subject: service_account::user_name(namespace, account),
        }
    }

    /// Whether everything is said, and nothing contradicts.
    pub fn check(&self) -> Result<(), &'static str> {
        let said = [
            (&self.subject, "sub claim is missing"),
            (&self.namespace, "namespace claim is missing"),
            (&self.secret, "secretName claim is missing"),
            (&self.account, "serviceAccountName claim is missing"),
            (&self.account_uid, "serviceAccountUID claim is missing"),
        ];
        if let Some((_, missing)) = said.iter().find(|(value, _)| value.is_empty()) {
            return Err(missing);
        }
        match service_account::parse(&self.subject) {
            Some(named) if named == (self.namespace.as_str(), self.account.as_str()) => Ok(()),
            _ => Err("sub claim is invalid"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: impl Fn(&mut LegacyClaims), expected: Result<(), &str>) {
        let mut claims = LegacyClaims::new("default", "web-token", "web", "u1");
        change(&mut claims);
        assert_eq!(claims.check(), expected);
    }

    #[test]
    fn everything_must_be_said() {
        check(|_| {}, Ok(()));
        check(|claims| claims.secret.clear(), Err("secretName claim is missing"));
        check(|claims| claims.subject.clear(), Err("sub claim is missing"));
        check(
            |claims| claims.account_uid.clear(),
            Err("serviceAccountUID claim is missing"),
        );
    }

    #[test]
    fn nothing_may_contradict() {
        check(
            |claims| claims.account = "root".to_owned(),
            Err("sub claim is invalid"),
        );
    }
}

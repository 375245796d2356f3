//! Legacy tokens, which are stored in Secrets and never expire.
//!
//! They are issued for Secrets of the type `kubernetes.io/service-account-token` and are valid as long as the Secret has
//! them. They have no audience: they are for this server.
//!
//! The claims are those of `pkg/serviceaccount/legacy.go` in Kubernetes.

use serde::{Deserialize, Serialize};

use crate::service_account;

/// The issuer of all legacy tokens, whatever the server's issuer URL.
pub const ISSUER: &str = "kubernetes/serviceaccount";

/// The claims of a legacy token.
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
    /// The claims of the token in a Secret of a service account.
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

    /// Checks that all claims are set and agree.
    pub fn check(&self) -> Result<(), &'static str> {
        let required = [
            (&self.subject, "sub claim is missing"),
            (&self.namespace, "namespace claim is missing"),
            (&self.secret, "secretName claim is missing"),
            (&self.account, "serviceAccountName claim is missing"),
            (&self.account_uid, "serviceAccountUID claim is missing"),
        ];
        if let Some((_, missing)) = required.iter().find(|(value, _)| value.is_empty()) {
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
    fn all_claims_are_required() {
        check(|_| {}, Ok(()));
        check(|claims| claims.secret.clear(), Err("secretName claim is missing"));
        check(|claims| claims.subject.clear(), Err("sub claim is missing"));
        check(
            |claims| claims.account_uid.clear(),
            Err("serviceAccountUID claim is missing"),
        );
    }

    #[test]
    fn the_claims_must_agree() {
        check(
            |claims| claims.account = "root".to_owned(),
            Err("sub claim is invalid"),
        );
    }
}

//! A token Secret and its ServiceAccount. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde::Deserialize;
use setpoint_api::Stored;

pub(super) const TYPE: &str = "kubernetes.io/service-account-token";
pub(super) const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
pub(super) const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// A Secret of type `kubernetes.io/service-account-token`, filled in or not.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TokenSecret {
    pub(super) metadata: Metadata,
    pub(super) data: BTreeMap<String, ByteString>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) creation_timestamp: Option<Timestamp>,
}

/// A ServiceAccount, limited to the Secrets it references.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Account {
    pub(super) secrets: Vec<SecretReference>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SecretReference {
    pub(super) name: String,
}

/// Whether the object is a token Secret, by its type.
pub(super) fn is_token(object: &Stored) -> bool {
    object.field("type") == Some(TYPE)
}

// === impl TokenSecret ===

impl TokenSecret {
    /// The name of its ServiceAccount; empty if it has none.
    pub(super) fn account(&self) -> &str {
        self.metadata
            .annotations
            .get(ACCOUNT_NAME)
            .map_or("", String::as_str)
    }

    /// Whether it may belong to the ServiceAccount of this uid.
    pub(super) fn is_of(&self, uid: &str) -> bool {
        let own = self.metadata.annotations.get(ACCOUNT_UID);
        own.is_none_or(|own| own.is_empty() || own == uid)
    }

    /// The fields to fill in: the CA certificates if they differ, the namespace and the token if they are absent.
    pub(super) fn missing_fields(&self, root_ca: &str) -> MissingFields {
        let is_empty = |key| {
            self.data
                .get(key)
                .is_none_or(|value: &ByteString| value.0.is_empty())
        };
        let certificates = self.data.get("ca.crt").map_or(&[][..], |value| &value.0);
        MissingFields {
            certificates: !root_ca.is_empty() && certificates != root_ca.as_bytes(),
            namespace: is_empty("namespace"),
            token: is_empty("token"),
        }
    }
}

/// The fields that a token Secret lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MissingFields {
    pub(super) certificates: bool,
    pub(super) namespace: bool,
    pub(super) token: bool,
}

impl MissingFields {
    pub(super) const NOTHING: Self = Self {
        certificates: false,
        namespace: false,
        token: false,
    };
}

impl Account {
    pub(super) fn names(&self, secret: &str) -> bool {
        self.secrets.iter().any(|own| own.name == secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rows: &[(&str, &str)], root_ca: &str, expected: (bool, bool, bool)) {
        let rows = rows.iter();
        let data = rows.map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        let secret = TokenSecret {
            data: data.collect(),
            ..TokenSecret::default()
        };
        let missing_fields = secret.missing_fields(root_ca);
        assert_eq!(
            (
                missing_fields.certificates,
                missing_fields.namespace,
                missing_fields.token
            ),
            expected
        );
    }

    #[test]
    fn only_what_is_absent_or_outdated_is_filled_in() {
        check(&[], "ca", (true, true, true));
        check(&[], "", (false, true, true));
        check(
            &[("ca.crt", "old"), ("namespace", "a"), ("token", "t")],
            "ca",
            (true, false, false),
        );
        check(
            &[("ca.crt", "ca"), ("namespace", "a"), ("token", "t")],
            "ca",
            (false, false, false),
        );
    }
}

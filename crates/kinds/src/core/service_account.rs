//! ServiceAccount: who the processes in a pod are.

use setpoint_schema::Tree;

use crate::at::At;
use crate::meta;
use crate::strategy::{Facts, Names, Rules, Strategy, Subresource};

const MOUNTABLE_ANNOTATION: &str = "kubernetes.io/enforce-mountable-secrets";

#[derive(Debug)]
pub struct ServiceAccount;

impl Strategy for ServiceAccount {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "ServiceAccount");
    const NAMES: Names = Names::new("serviceaccounts", "serviceaccount").short(&["sa"]);
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::answer(
        "token",
        ("authentication.k8s.io", "v1", "TokenRequest"),
    )];
    const RULES: Rules = Rules {
        returns_deleted: true,
        ..Rules::DEFAULT
    };

    fn prepare_create(account: &mut Tree, _facts: &Facts) {
        keep_names(account);
    }

    fn prepare_update(account: &mut Tree, _old: &Tree, _facts: &Facts) {
        keep_names(account);
    }

    fn validate(_account: &At<'_>) {}

    fn warnings(account: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
        let says =
            |account: &At<'_>| meta::entry(account.value(), "annotations", MOUNTABLE_ANNOTATION).is_some();
        if !says(account) || old.is_some_and(says) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{MOUNTABLE_ANNOTATION}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )]
    }
}

/// Secrets are referred to by name alone.
fn keep_names(account: &mut Tree) {
    for secret in account.items_mut("secrets") {
        secret.map_or_default().retain(|field, _| field == "name");
    }
}

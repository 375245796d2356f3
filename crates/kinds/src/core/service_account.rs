//! ServiceAccount: the identity of the processes in a pod.

use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy, Subresource, meta};

const MOUNTABLE_ANNOTATION: &str = "kubernetes.io/enforce-mountable-secrets";

#[derive(Debug)]
pub struct ServiceAccount;

impl Strategy for ServiceAccount {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "ServiceAccount");
    const NAMES: Names = Names::new("serviceaccounts", "serviceaccount").short(&["sa"]);
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::virtual_resource(
        "token",
        ("authentication.k8s.io", "v1", "TokenRequest"),
    )];
    const RULES: Rules = Rules::DEFAULT.returns_deleted();

    fn prepare_create(account: &mut Tree, _facts: &RequestFacts) {
        keep_secret_names(account);
    }

    fn prepare_update(account: &mut Tree, _old: &Tree, _facts: &RequestFacts) {
        keep_secret_names(account);
    }

    fn validate(_account: &FieldRef<'_>, _facts: &RequestFacts) {}

    fn warnings(account: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        let is_annotated = |account: &FieldRef<'_>| {
            meta::entry(account.value(), fields::ANNOTATIONS, MOUNTABLE_ANNOTATION).is_some()
        };
        if !is_annotated(account) || old.is_some_and(is_annotated) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{MOUNTABLE_ANNOTATION}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )]
    }
}

/// Keeps only the names of secret references.
fn keep_secret_names(account: &mut Tree) {
    for secret in account.items_mut(fields::SECRETS) {
        secret.map_or_default().retain(|field, _| field == fields::NAME);
    }
}

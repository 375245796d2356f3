//! ServiceAccount: who the processes in a pod are.

use setpoint_schema::Tree;

use crate::at::At;
use crate::strategy::{Facts, Names, Rules, Strategy};

#[derive(Debug)]
pub struct ServiceAccount;

impl Strategy for ServiceAccount {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "ServiceAccount");
    const NAMES: Names = Names::new("serviceaccounts", "serviceaccount").short(&["sa"]);
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
}

/// Secrets are referred to by name alone.
fn keep_names(account: &mut Tree) {
    for secret in account.items_mut("secrets") {
        secret.map_or_default().retain(|field, _| field == "name");
    }
}

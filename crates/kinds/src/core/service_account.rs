//! ServiceAccount: who the processes in a pod are.

use k8s_openapi::api::core::v1::{ObjectReference, ServiceAccount};

use setpoint_api::field::Errors;

use crate::strategy::{Facts, Names, Rules, Strategy};

impl Strategy for ServiceAccount {
    const NAMES: Names = Names::new("serviceaccounts", "serviceaccount").short(&["sa"]);
    const RULES: Rules = Rules {
        returns_deleted: true,
        ..Rules::DEFAULT
    };

    fn prepare_create(&mut self, _facts: &Facts) {
        keep_names(self.secrets.as_mut());
    }

    fn prepare_update(&mut self, _old: &Self, _facts: &Facts) {
        keep_names(self.secrets.as_mut());
    }

    fn validate(&self, _errors: &Errors<'_>) {}
}

/// Secrets are referred to by name alone.
fn keep_names(secrets: Option<&mut Vec<ObjectReference>>) {
    for secret in secrets.into_iter().flatten() {
        *secret = ObjectReference {
            name: secret.name.take(),
            ..ObjectReference::default()
        };
    }
}

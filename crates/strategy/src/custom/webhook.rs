//! Conversion of custom kinds by a webhook: the steps before and after its call.

use std::sync::Arc;

use setpoint_api::Stored;
use setpoint_schema::{CanonicalJson, PruneErrors, Tree, fields};

use super::{CustomKind, embedded};
use crate::kind::{ConversionWebhook, InvalidObject, WebhookConversion};

impl WebhookConversion for CustomKind {
    fn webhook(&self) -> &Arc<ConversionWebhook> {
        let webhook = self.versions.webhook();
        webhook.expect("only a kind with a webhook is returned as a WebhookConversion")
    }

    fn storage_version(&self) -> &str {
        &self.versions.stored
    }

    fn has_version(&self, api_version: &str) -> bool {
        self.versions.schema(api_version).is_some()
    }

    fn is_other_version(&self, object: &Stored) -> bool {
        !self.reader.has_own_type_meta(object.json())
    }

    fn decode_unconverted(&self, object: &Stored) -> Result<Tree, InvalidObject> {
        self.decode_in_own_version(object)
    }

    fn write_unconverted(&self, object: &Tree) -> CanonicalJson {
        setpoint_schema::write_sorted(&self.head, object)
    }

    /// Defaults are not set, as in Kubernetes: the webhook decides about fields that its source does not have.
    fn complete(&self, converted: &mut Tree) -> Result<(), InvalidObject> {
        let version = converted.str_at(&[fields::API_VERSION]).unwrap_or_default();
        if let Some(schema) = self.versions.schema(version) {
            schema.prune(converted);
            schema.prune_non_nullable_nulls(converted);
            let mut problems = PruneErrors::default();
            embedded::coerce(schema, converted, &mut problems);
            if let Some(problem) = problems.type_error {
                return Err(InvalidObject::Malformed(problem));
            }
        }
        self.normalise_metadata(converted)
    }

    fn encode_converted(&self, converted: Tree, stored: &Stored) -> Result<Arc<Stored>, InvalidObject> {
        self.encode_in_version(converted, stored)
    }
}

//! [`WebhookConversion`]: the steps around the call of a conversion webhook, for kinds whose versions only a webhook can
//! convert. The call itself awaits, so the registry makes it.

use std::sync::Arc;

use setpoint_api::Stored;
use setpoint_schema::{CanonicalJson, Tree};

use super::InvalidObject;

/// The webhook that converts the objects of a CRD (`spec.conversion.webhook`).
#[derive(Debug)]
pub struct ConversionWebhook {
    /// The name of the CRD.
    pub crd_name: String,
    /// `clientConfig`, as its author wrote it.
    pub client_config: Tree,
    /// The versions of ConversionReview that the webhook understands, best first.
    pub review_versions: Vec<String>,
}

/// One version of a kind whose versions only a webhook can convert.
///
/// The registry converts before it calls the other functions of the kind: those take objects of this version, and
/// [`super::Storage::write`] one of the storage version. To read an object that is stored in another version, it calls
/// [`Self::decode_unconverted`], the webhook, [`Self::complete`] and [`Self::encode_converted`]; to write one, it calls
/// the webhook and [`Self::complete`].
pub trait WebhookConversion: Send + Sync {
    fn webhook(&self) -> &Arc<ConversionWebhook>;

    /// The `apiVersion` in which objects are stored.
    fn storage_version(&self) -> &str;

    /// Whether the CRD has this `apiVersion`. The webhook is not called for an object of any other.
    fn has_version(&self, api_version: &str) -> bool;

    /// Whether a stored object has another version than this one.
    fn is_other_version(&self, object: &Stored) -> bool;

    /// Decodes a stored object in its own version, by the schema of that version.
    fn decode_unconverted(&self, object: &Stored) -> Result<Tree, InvalidObject>;

    /// Encodes an object for the store in its own version: one that is only marked or removed need not be converted.
    fn write_unconverted(&self, object: &Tree) -> CanonicalJson;

    /// Drops what the schema of its version does not have from an object that the webhook returned.
    fn complete(&self, converted: &mut Tree) -> Result<(), InvalidObject>;

    /// Encodes a converted object of this version. Key and resource version are those of the stored object.
    fn encode_converted(&self, converted: Tree, stored: &Stored) -> Result<Arc<Stored>, InvalidObject>;
}

//! Conversion of the objects of one request: of what it reads to its version, of what it writes to the storage version.

use std::borrow::Cow;
use std::slice;
use std::sync::Arc;

use setpoint_api::call::Body;
use setpoint_api::{ApiVerb, Response, Status, Stored};
use setpoint_schema::{Tree, fields};

use super::{ConversionError, ConversionResult};
use crate::request_context::RequestContext;

impl RequestContext<'_> {
    /// A stored object in the version of the request, if only a webhook can convert it. The functions of other kinds take
    /// the object as it is stored.
    pub(crate) async fn in_request_version(&self, object: &Arc<Stored>) -> ConversionResult {
        match self.kind.webhook_conversion() {
            None => Ok(object.clone()),
            Some(_) => Box::pin(self.convert_object(object)).await,
        }
    }

    /// An object of a request in the storage version, if only a webhook can convert it. Other kinds convert it when they
    /// encode it.
    pub(crate) async fn in_storage_version<'a>(&self, object: &'a Tree) -> Result<Cow<'a, Tree>, Status> {
        let Some(conversion) = self.kind.webhook_conversion() else {
            return Ok(Cow::Borrowed(object));
        };
        let version = conversion.storage_version();
        if object.str_at(&[fields::API_VERSION]) == Some(version) {
            return Ok(Cow::Borrowed(object));
        }
        let conversions = &self.registry.conversions;
        let converted = Box::pin(conversions.convert_tree(conversion, object, version)).await;
        converted
            .map(Cow::Owned)
            .map_err(ConversionError::into_write_error)
    }

    async fn convert_object(&self, object: &Arc<Stored>) -> ConversionResult {
        let conversions = &self.registry.conversions;
        let converted = conversions.convert_objects(&self.kind, slice::from_ref(object));
        let mut converted = converted.await;
        converted.pop().expect("there is a result for each object")
    }
}

/// The response in the version of the request, for a kind with a webhook. Lists and watches are converted already, since
/// their selectors apply to converted objects.
pub(crate) async fn response(
    context: &RequestContext<'_>,
    mut response: Response,
) -> Result<Response, Status> {
    if let Body::Object(object) = response.body {
        let converted = context.in_request_version(&object).await;
        let converted = converted.map_err(|error| match context.verb {
            ApiVerb::Get => error.into_read_error(context.kind_info(), &object),
            _ => error.into_update_error(object.resource_version()),
        })?;
        response.body = Body::Object(converted);
    }
    Ok(response)
}

//! Conversion of the objects of a list.

use std::sync::Arc;

use setpoint_api::selector::{FieldSelector, LabelSelector};
use setpoint_api::{Status, Stored, off_worker};

use super::error::ListErrors;
use crate::error;
use crate::request_context::RequestContext;

/// So many objects are converted before errors end the list.
pub(crate) const CONVERTED_OBJECTS: usize = 2000;

/// The objects of a list in the version of the request.
pub(crate) async fn convert_listed(
    context: &RequestContext<'_>,
    objects: &[Arc<Stored>],
) -> Result<Vec<Arc<Stored>>, Status> {
    if context.kind.webhook_conversion().is_none() {
        let converted = || {
            objects
                .iter()
                .map(|object| context.kind.to_request_version(object))
        };
        return off_worker(|| converted().collect::<Result<_, _>>()).map_err(error::undecodable);
    }
    let mut listed = Vec::with_capacity(objects.len());
    for objects in objects.chunks(CONVERTED_OBJECTS) {
        let converted = context
            .registry
            .conversions
            .convert_objects(&context.kind, objects);
        let mut errors = ListErrors::default();
        for (object, converted) in objects.iter().zip(converted.await) {
            match converted {
                Ok(converted) => listed.push(converted),
                Err(error) if errors.add(context.kind_info(), object, &error) => break,
                Err(_) => {}
            }
        }
        errors.into_status(&context.name)?;
    }
    Ok(listed)
}

/// Whether selectors apply to objects in the version of the request: a webhook may change labels, and the selectable
/// fields of one version need not be those of another. Name and namespace are the same in every version.
pub(crate) fn selects_converted(
    context: &RequestContext<'_>,
    labels: &LabelSelector,
    fields: &FieldSelector,
) -> bool {
    let info = context.kind_info();
    let has_fields = || fields.fields().any(|label| !label.starts_with("metadata."));
    match context.kind.webhook_conversion() {
        Some(_) => !labels.is_empty() || has_fields(),
        None => info.is_custom && has_fields() && info.fields != context.resource.kind.info().fields,
    }
}

//! Update: replaces an object by the body.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use setpoint_api::call::Body;
use setpoint_api::field::{ErrorType, FieldError};
use setpoint_api::options::WriteOptions;
use setpoint_api::{Gvk, Payload, ResourceVersion, Response, Status, Stored};
use setpoint_schema::Tree;
use setpoint_strategy::{SubresourceKind, meta};

use super::create::{NewObject, create_object};
use super::guaranteed_update::{UpdatedObject, guaranteed_update};
use crate::request_context::RequestContext;
use crate::{error, field_managers};

/// The new object of an update: the body.
#[derive(Debug)]
struct Replacement<'a> {
    body: Tree,
    options: &'a WriteOptions,
}

/// Replaces an object, or the fields of it that the subresource covers.
pub(crate) async fn update(
    context: &RequestContext<'_>,
    subresource: Option<SubresourceKind>,
    payload: Payload,
    options: WriteOptions,
) -> Result<Response, Status> {
    let options = &options;
    let key = context.key()?;
    let mut body = context.decode(&payload, options.field_validation)?;
    context.check_name(&body)?;
    context.default_namespace(&mut body)?;
    let creates = subresource.is_none() && context.kind_info().rules.write.create_on_update;
    if creates && context.find(&key)?.is_none() {
        requested_version(&body)?;
        return create_object(context, NewObject::Update(&body), options).await;
    }
    let replacement = Replacement { body, options };
    let object = guaranteed_update(context, subresource, options, &replacement).await?;
    Ok(Response::new(Body::Object(object)))
}

impl UpdatedObject for Replacement<'_> {
    fn compute(
        &self,
        context: &RequestContext<'_>,
        old: &Arc<Stored>,
        old_tree: &Tree,
    ) -> Result<Tree, Status> {
        let version = requested_version(&self.body)?;
        require_version(context, version, old)?;
        require_uid(context, &self.body, old)?;
        let mut object = self.body.clone();
        field_managers::update(context, Some(old_tree), &mut object, self.options);
        Ok(object)
    }

    fn required_version(&self) -> Option<ResourceVersion> {
        requested_version(&self.body).ok().flatten()
    }
}

/// The resource version in the object; none, or zero, means any.
pub(crate) fn requested_version(object: &Tree) -> Result<Option<ResourceVersion>, Status> {
    let text = meta::str(object, "resourceVersion");
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let version: u64 = text.parse().map_err(|_| {
        let why = if digits {
            "value out of range"
        } else {
            "invalid syntax"
        };
        error::plain(500, format!("strconv.ParseUint: parsing {text:?}: {why}"))
    })?;
    Ok((version != 0).then_some(ResourceVersion(version)))
}

fn require_version(
    context: &RequestContext<'_>,
    version: Option<ResourceVersion>,
    old: &Stored,
) -> Result<(), Status> {
    match version {
        Some(version) if version != old.resource_version() => {
            context.registry.counters.conflicts.fetch_add(1, Relaxed);
            Err(Status::modified(&context.name, old.key().name()))
        }
        None if !context.kind_info().rules.write.unconditional_update => Err(version_required(context, old)),
        _ => Ok(()),
    }
}

/// Rejects an object without a resource version, if its kind requires one.
pub(crate) fn require_some_version(
    context: &RequestContext<'_>,
    object: &Tree,
    old: &Stored,
) -> Result<(), Status> {
    let is_required = !context.kind_info().rules.write.unconditional_update;
    match requested_version(object)? {
        None if is_required => Err(version_required(context, old)),
        _ => Ok(()),
    }
}

/// This kind requires a version. The error names the resource rather than the kind.
fn version_required(context: &RequestContext<'_>, old: &Stored) -> Status {
    let error = FieldError {
        path: "metadata.resourceVersion".to_owned(),
        error_type: ErrorType::Invalid,
        message: "Invalid value: 0: must be specified for an update".to_owned(),
    };
    let name = &context.name;
    let subject = Gvk::new(&name.group, "", &name.resource);
    Status::invalid(&subject, old.key().name(), &[error])
}

/// The UID in the body is a precondition of the update.
pub(crate) fn require_uid(context: &RequestContext<'_>, object: &Tree, old: &Stored) -> Result<(), Status> {
    let uid = meta::str(object, "uid");
    if uid.is_empty() || uid == old.uid() {
        return Ok(());
    }
    let why = format!(
        "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
        old.uid()
    );
    Err(context.invalid_object(old.key(), &why))
}

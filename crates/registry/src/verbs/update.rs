//! Update: an object is replaced by the document its author made of it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use setpoint_api::call::Body;
use setpoint_api::field::{Cause, FieldError};
use setpoint_api::options::WriteOptions;
use setpoint_api::{Gvk, Key, Payload, ResourceVersion, Response, Status, Stored};
use setpoint_kinds::{Draft, Part};

use super::create::create_object;
use crate::admit::Operation;
use crate::call::{Call, Incoming, Outcome};
use crate::{deletion, document, error};

/// What an update makes of the object that is there.
pub(crate) struct Attempt {
    pub(crate) draft: Box<dyn Draft>,
    /// The version that must still be there; without one, whatever is there is replaced.
    pub(crate) version: Option<ResourceVersion>,
    /// What there is to say about the document.
    pub(crate) warnings: Vec<String>,
}

/// Replaces an object, or the part of it that the subresource is about.
pub(crate) async fn update(
    call: &Call<'_>,
    part: Option<Part>,
    payload: &Payload,
    options: &WriteOptions,
) -> Result<Response, Status> {
    let key = call.key()?;
    let Incoming { mut draft, warnings } = call.decode(payload, options.field_validation)?;
    settle_name(call, &mut *draft)?;
    call.settle_namespace(&mut *draft)?;
    let version = asked_version(&*draft)?;
    if call.find(&key)?.is_none() && part.is_none() && call.about().rules.create_on_update {
        let mut draft = draft;
        draft.metadata_mut().resource_version = None;
        let mut response = create_object(call, draft, options).await?;
        response.warnings = warnings;
        return Ok(response);
    }
    let (object, warnings) = revise_until_written(call, part, options, |old| {
        require_version(call, version, old)?;
        require_uid(call, &*draft, old)?;
        Ok(Attempt {
            draft: draft.boxed_clone(),
            version,
            warnings: warnings.clone(),
        })
    })
    .await?;
    Ok(Response {
        warnings,
        ..Response::of(Body::Object(object))
    })
}

/// Tries until no one else is faster, or until the attempt itself says that it is too late.
///
/// The attempt is made anew against the newest object each time, and so is admission.
pub(crate) async fn revise_until_written(
    call: &Call<'_>,
    part: Option<Part>,
    options: &WriteOptions,
    attempt: impl Fn(&Stored) -> Result<Attempt, Status>,
) -> Result<(Arc<Stored>, Vec<String>), Status> {
    let key = call.key()?;
    loop {
        let old = call.find(&key)?.ok_or_else(|| call.not_found(&key))?;
        let Attempt {
            mut draft,
            version,
            warnings,
        } = attempt(&old)?;
        let before = call.resource.kind.revise(&old).map_err(error::unreadable)?;
        call.mutate(Operation::Update, &mut *draft, Some(&old), options.dry_run)?;
        keep_system_fields(&mut *draft, &*before);
        prepare(call, part, &mut *draft, &*before);
        validate(call, part, &*draft, &*before)?;
        call.admit(Operation::Update, Some(&mut *draft), Some(&old), options.dry_run)?;
        match write(call, &key, &old, &*draft, options).await? {
            Outcome::Written(object) => return Ok((object, warnings)),
            Outcome::Overtaken if version.is_some() => {
                return Err(Status::modified(&call.resource.name, key.name()));
            }
            Outcome::Overtaken => {}
        }
    }
}

/// Writes the object, or removes it if this update took away the last thing that held it. What changes nothing is not
/// written at all.
async fn write(
    call: &Call<'_>,
    key: &Key,
    old: &Arc<Stored>,
    draft: &dyn Draft,
    options: &WriteOptions,
) -> Result<Outcome, Status> {
    let written = call.write(draft)?;
    let version = old.resource_version();
    if deletion::is_over(draft) {
        let last = call.unstored(key.clone(), &written, Some(version))?;
        return match options.dry_run {
            true => Ok(Outcome::Written(last)),
            false => call.remove(key, version, &last).await,
        };
    }
    if document::is_same(old.json(), &written) && draft.expires_after(&call.facts).is_none() {
        call.registry.counters.unchanged_writes.fetch_add(1, Relaxed);
        return Ok(Outcome::Written(old.clone()));
    }
    if options.dry_run {
        let object = call.unstored(key.clone(), &written, Some(version))?;
        return Ok(Outcome::Written(object));
    }
    call.replace(key, version, written, draft).await
}

fn prepare(call: &Call<'_>, part: Option<Part>, draft: &mut dyn Draft, before: &dyn Draft) {
    match part {
        None => draft.prepare_update(before, &call.facts),
        Some(Part::Status) => draft.prepare_status(before, &call.facts),
        // An action has made its change already.
        Some(Part::Action) => {}
        Some(Part::Slice) => {
            let name = call.target.subresource.as_deref().unwrap_or_default();
            draft.prepare_part(name, before, &call.facts);
        }
    }
}

fn validate(
    call: &Call<'_>,
    part: Option<Part>,
    draft: &dyn Draft,
    before: &dyn Draft,
) -> Result<(), Status> {
    call.check(draft.name(), |errors| match part {
        Some(Part::Status) => draft.validate_status(before, errors),
        Some(Part::Action) => draft.validate(errors),
        None | Some(Part::Slice) => draft.validate_update(before, errors),
    })
}

/// What an update can never change, whatever the document says.
fn keep_system_fields(draft: &mut dyn Draft, before: &dyn Draft) {
    let old = before.metadata();
    let meta = draft.metadata_mut();
    meta.generation = old.generation;
    meta.creation_timestamp.clone_from(&old.creation_timestamp);
    meta.self_link = None;
    if meta.uid.as_ref().is_none_or(String::is_empty) {
        meta.uid.clone_from(&old.uid);
    }
    if old.deletion_timestamp.is_some() {
        meta.deletion_timestamp.clone_from(&old.deletion_timestamp);
    }
    if meta.deletion_grace_period_seconds.is_none() {
        meta.deletion_grace_period_seconds = old.deletion_grace_period_seconds;
    }
}

/// The name of the document must be that of the URL.
fn settle_name(call: &Call<'_>, draft: &mut dyn Draft) -> Result<(), Status> {
    let wanted = call.target.name.as_deref().unwrap_or_default();
    let name = draft.name();
    if name.is_empty() {
        return Err(Status::bad_request("name must be provided"));
    }
    if name != wanted {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({wanted})"
        )));
    }
    Ok(())
}

/// The version the document was made from; none, or zero, means any.
pub(crate) fn asked_version(draft: &dyn Draft) -> Result<Option<ResourceVersion>, Status> {
    let text = draft.metadata().resource_version.as_deref().unwrap_or_default();
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

fn require_version(call: &Call<'_>, version: Option<ResourceVersion>, old: &Stored) -> Result<(), Status> {
    match version {
        Some(version) if version != old.resource_version() => {
            call.registry.counters.conflicts.fetch_add(1, Relaxed);
            Err(Status::modified(&call.resource.name, old.key().name()))
        }
        None if !call.about().rules.unconditional_update => Err(version_required(call, old)),
        _ => Ok(()),
    }
}

/// This kind insists on a version, and says so about the resource rather than the kind.
fn version_required(call: &Call<'_>, old: &Stored) -> Status {
    let error = FieldError {
        path: "metadata.resourceVersion".to_owned(),
        cause: Cause::Invalid,
        message: "Invalid value: 0: must be specified for an update".to_owned(),
    };
    let name = &call.resource.name;
    let subject = Gvk::new(&name.group, "", &name.resource);
    Status::invalid(&subject, old.key().name(), &[error])
}

fn require_uid(call: &Call<'_>, draft: &dyn Draft, old: &Stored) -> Result<(), Status> {
    let uid = draft.metadata().uid.as_deref().unwrap_or_default();
    if uid.is_empty() || uid == old.uid() {
        return Ok(());
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
        call.resource.prefix,
        old.key(),
        old.uid()
    );
    Err(Status::conflict(&call.resource.name, old.key().name(), &why))
}

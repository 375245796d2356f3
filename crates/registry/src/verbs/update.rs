//! Update: an object is replaced by the document its author made of it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use setpoint_api::call::Body;
use setpoint_api::field::{Cause, FieldError};
use setpoint_api::options::WriteOptions;
use setpoint_api::{Gvk, Key, Payload, ResourceVersion, Response, Status, Stored};
use setpoint_kinds::{Part, meta};
use setpoint_schema::Tree;

use super::create::create_object;
use crate::admit::Operation;
use crate::call::{Along, Call, Incoming, Outcome};
use crate::{deletion, document, error, managers};

/// What an update makes of the object that is there.
pub(crate) struct Attempt {
    pub(crate) object: Tree,
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
    let Incoming { mut object, warnings } = call.decode(payload, options.field_validation)?;
    call.settle_name(&object)?;
    call.settle_namespace(&mut object)?;
    if call.find(&key)?.is_none() && part.is_none() && call.about().rules.create_on_update {
        asked_version(&object)?;
        return create_instead(call, object, warnings, options).await;
    }
    let (object, warnings) = revise_until_written(call, part, options, |old, before| {
        let version = asked_version(&object)?;
        require_version(call, version, old)?;
        require_uid(call, &object, old)?;
        let mut object = object.clone();
        managers::update(call, Some(before), &mut object, options);
        Ok(Attempt {
            object,
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

/// Some kinds are created by an update of what is not there.
async fn create_instead(
    call: &Call<'_>,
    mut object: Tree,
    warnings: Vec<String>,
    options: &WriteOptions,
) -> Result<Response, Status> {
    meta::clear(&mut object, "resourceVersion");
    managers::update(call, None, &mut object, options);
    let (response, ()) = create_object(call, options, || Ok((object.clone(), ()))).await?;
    Ok(Response {
        warnings: [warnings, response.warnings].concat(),
        ..response
    })
}

/// Tries until no one else is faster, or until the attempt itself says that it is too late.
///
/// The attempt is made anew against the newest object each time, and so is admission. It is given the object and its
/// document.
pub(crate) async fn revise_until_written(
    call: &Call<'_>,
    part: Option<Part>,
    options: &WriteOptions,
    attempt: impl Fn(&Arc<Stored>, &Tree) -> Result<Attempt, Status>,
) -> Result<(Arc<Stored>, Vec<String>), Status> {
    let key = call.key()?;
    loop {
        let old = call.find(&key)?.ok_or_else(|| call.not_found(&key))?;
        let before = call.kind.revise(&old).map_err(error::unreadable)?;
        let attempt = attempt(&old, &before)?;
        let Attempt {
            mut object,
            version,
            mut warnings,
        } = attempt;
        let mut along = Along::new(options.dry_run);
        call.mutate(Operation::Update, &mut object, Some(&old), &mut along)
            .await?;
        keep_system_fields(&mut object, &before);
        let named = part.map(|part| (part, call.target.subresource.as_deref().unwrap_or_default()));
        call.kind.prepare_update(&mut object, &before, named, &call.facts);
        managers::settle(&before, &mut object);
        call.check(meta::name(&object), |errors| {
            call.kind.validate_update(&object, &before, named, errors);
        })?;
        call.admit(Operation::Update, Some(&mut object), Some(&old), &mut along)
            .await?;
        warnings.extend(call.kind.warnings(&object, Some(&before)));
        warnings.append(&mut along.warnings);
        match write(call, &key, &old, &object, along).await? {
            Outcome::Written(object) => return Ok((object, warnings)),
            Outcome::Overtaken if version.is_some() => {
                return Err(Status::modified(&call.name, key.name()));
            }
            Outcome::Overtaken | Outcome::CompanionOvertaken => {}
        }
    }
}

/// Writes the object, or removes it if this update took away the last thing that held it. What changes nothing is not
/// written at all.
async fn write(
    call: &Call<'_>,
    key: &Key,
    old: &Arc<Stored>,
    object: &Tree,
    along: Along,
) -> Result<Outcome, Status> {
    let ready = call.resource.write(key, object);
    let version = old.resource_version();
    if deletion::is_over(&*call.kind, object) {
        let last = call.unstored(key.clone(), &ready.written, Some(version))?;
        return match along.dry_run {
            true => Ok(Outcome::Written(last)),
            false => call.remove(key, version, &last, along).await,
        };
    }
    if document::is_same(old.json(), &ready.written) && call.kind.expires_after(&call.facts).is_none() {
        call.registry.counters.unchanged_writes.fetch_add(1, Relaxed);
        return Ok(Outcome::Written(old.clone()));
    }
    if along.dry_run {
        let object = call.unstored(key.clone(), &ready.written, Some(version))?;
        return Ok(Outcome::Written(object));
    }
    call.replace(key, version, ready, along).await
}

/// What an update can never change, whatever the document says.
fn keep_system_fields(object: &mut Tree, old: &Tree) {
    meta::copy(object, old, "generation");
    meta::copy(object, old, "creationTimestamp");
    meta::clear(object, "selfLink");
    if meta::str(object, "uid").is_empty() {
        meta::copy(object, old, "uid");
    }
    if meta::is_deleting(old) {
        meta::copy(object, old, "deletionTimestamp");
    }
    if meta::find(object, "deletionGracePeriodSeconds").is_none() {
        meta::copy(object, old, "deletionGracePeriodSeconds");
    }
}

/// The version the document was made from; none, or zero, means any.
pub(crate) fn asked_version(object: &Tree) -> Result<Option<ResourceVersion>, Status> {
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

fn require_version(call: &Call<'_>, version: Option<ResourceVersion>, old: &Stored) -> Result<(), Status> {
    match version {
        Some(version) if version != old.resource_version() => {
            call.registry.counters.conflicts.fetch_add(1, Relaxed);
            Err(Status::modified(&call.name, old.key().name()))
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
    let name = &call.name;
    let subject = Gvk::new(&name.group, "", &name.resource);
    Status::invalid(&subject, old.key().name(), &[error])
}

fn require_uid(call: &Call<'_>, object: &Tree, old: &Stored) -> Result<(), Status> {
    let uid = meta::str(object, "uid");
    if uid.is_empty() || uid == old.uid() {
        return Ok(());
    }
    let why = format!(
        "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
        old.uid()
    );
    Err(call.invalid_object(old.key(), &why))
}

//! Create: a document becomes an object that was not there before.

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use setpoint_api::call::Body;
use setpoint_api::options::WriteOptions;
use setpoint_api::{Key, Payload, Response, Status};
use setpoint_kinds::Draft;
use setpoint_schema::Written;

use crate::admit::Operation;
use crate::call::{Call, Incoming, Outcome};
use crate::{error, names};

/// Creates an object from a document.
pub(crate) async fn create(
    call: &Call<'_>,
    payload: &Payload,
    options: &WriteOptions,
) -> Result<Response, Status> {
    if call.about().is_namespaced() && call.namespace().is_empty() {
        return Err(Status::method_not_allowed());
    }
    let Incoming { draft, warnings } = call.decode(payload, options.field_validation)?;
    let mut response = create_object(call, draft, options).await?;
    response.warnings = warnings;
    Ok(response)
}

/// Creates an object that has been read already: also what an update of an absent object may come to.
pub(crate) async fn create_object(
    call: &Call<'_>,
    mut draft: Box<dyn Draft>,
    options: &WriteOptions,
) -> Result<Response, Status> {
    call.settle_namespace(&mut *draft)?;
    call.mutate(Operation::Create, &mut *draft, None, options.dry_run)?;
    refuse_version(&*draft)?;
    let generated = names::is_generated(draft.metadata());
    for _ in 0..=names::TRIES {
        if generated {
            let base = draft.metadata().generate_name.clone().unwrap_or_default();
            draft.metadata_mut().name = Some(names::generate(&base));
        }
        let (key, written) = make_ready(call, &mut *draft, options.dry_run)?;
        if options.dry_run {
            return try_only(call, key, &written);
        }
        if let Outcome::Written(object) = call.insert(&key, written, &*draft).await? {
            return Ok(Response {
                created: true,
                ..Response::of(Body::Object(object))
            });
        }
        if !generated {
            return Err(already_exists(call, &key));
        }
    }
    Err(no_free_name(call, draft.name()))
}

/// Brings a new object, which has its name, through the rules, up to the bytes to be stored.
pub(crate) fn make_ready(
    call: &Call<'_>,
    draft: &mut dyn Draft,
    dry_run: bool,
) -> Result<(Key, Written), Status> {
    set_system_fields(call, draft);
    draft.prepare_create(&call.facts);
    call.check(draft.name(), |errors| draft.validate(errors))?;
    call.admit(Operation::Create, Some(&mut *draft), None, dry_run)?;
    let key = Key::new(call.namespace(), draft.name());
    Ok((key, call.write(draft)?))
}

/// Takes away what only the server may say, and says it.
fn set_system_fields(call: &Call<'_>, draft: &mut dyn Draft) {
    let meta = draft.metadata_mut();
    meta.uid = Some(uuid::Uuid::new_v4().to_string());
    meta.creation_timestamp = Some(Time(whole_seconds(call.facts.now)));
    meta.deletion_timestamp = None;
    meta.deletion_grace_period_seconds = None;
    meta.resource_version = None;
    meta.self_link = None;
    meta.generation = None;
}

/// Times in metadata have no fraction.
pub(crate) fn whole_seconds(time: Timestamp) -> Timestamp {
    let down = TimestampRound::new()
        .smallest(Unit::Second)
        .mode(RoundMode::Floor);
    time.round(down).unwrap_or(time)
}

fn refuse_version(draft: &dyn Draft) -> Result<(), Status> {
    let version = draft.metadata().resource_version.as_deref();
    // Only what reads as a version is refused; anything else is ignored.
    let version: u64 = version.and_then(|text| text.parse().ok()).unwrap_or_default();
    match version {
        0 => Ok(()),
        _ => Err(error::plain(
            500,
            "resourceVersion should not be set on objects to be created",
        )),
    }
}

fn try_only(call: &Call<'_>, key: Key, written: &setpoint_schema::Written) -> Result<Response, Status> {
    if call.find(&key)?.is_some() {
        return Err(already_exists(call, &key));
    }
    let object = call.unstored(key, written, None)?;
    Ok(Response {
        created: true,
        ..Response::of(Body::Object(object))
    })
}

fn already_exists(call: &Call<'_>, key: &Key) -> Status {
    let mut status = Status::already_exists(&call.resource.name, key.name());
    let existing = call.find(key).ok().flatten();
    if existing.is_some_and(|existing| existing.header().deleting) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

fn no_free_name(call: &Call<'_>, name: &str) -> Status {
    let mut status = Status::already_exists(&call.resource.name, name);
    status.message = format!(
        "{}, the server was not able to generate a unique name for the object",
        status.message
    );
    status.details.get_or_insert_default().retry_after_seconds = 1;
    status
}

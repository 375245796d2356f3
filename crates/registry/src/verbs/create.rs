//! Create: a document becomes an object that was not there before.

use setpoint_api::call::Body;
use setpoint_api::options::WriteOptions;
use setpoint_api::{Key, Payload, Response, Status};
use setpoint_kinds::meta;
use setpoint_schema::{Tree, Written};

use crate::admit::Operation;
use crate::call::{Along, Call, Incoming, Outcome};
use crate::ready::Ready;
use crate::{error, managers, names};

/// How often a create is tried when something that is written along was overtaken.
const COMPANION_TRIES: usize = 64;

/// Creates an object from a document.
pub(crate) async fn create(
    call: &Call<'_>,
    payload: &Payload,
    options: &WriteOptions,
) -> Result<Response, Status> {
    if call.about().is_namespaced() && call.namespace().is_empty() {
        return Err(Status::method_not_allowed());
    }
    let (response, said) = create_object(call, options, || {
        let Incoming { mut object, warnings } = call.decode(payload, options.field_validation)?;
        call.settle_namespace(&mut object)?;
        managers::update(call, None, &mut object, options);
        Ok((object, warnings))
    })
    .await?;
    Ok(Response {
        warnings: [said, response.warnings].concat(),
        ..response
    })
}

/// Creates the object that `document` makes, with its owners: also what an update or an apply of an absent object may
/// come to. The document is made anew when something that is written along was overtaken.
pub(crate) async fn create_object<T>(
    call: &Call<'_>,
    options: &WriteOptions,
    document: impl Fn() -> Result<(Tree, T), Status>,
) -> Result<(Response, T), Status> {
    for _ in 0..COMPANION_TRIES {
        let (object, said) = document()?;
        if let Some(response) = try_create(call, object, options).await? {
            return Ok((response, said));
        }
    }
    Err(Status::internal("what is written along changes too often"))
}

/// Creates an object; nothing if something that is written along was overtaken.
async fn try_create(
    call: &Call<'_>,
    mut object: Tree,
    options: &WriteOptions,
) -> Result<Option<Response>, Status> {
    if !call.about().allows("create") {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(&call.name, meta::name(&object), why));
    }
    let mut along = Along::new(options.dry_run);
    call.mutate(Operation::Create, &mut object, None, &mut along)
        .await?;
    let given = given_version(&object);
    let generated = names::is_generated(&object);
    for _ in 0..=names::TRIES {
        if generated {
            let name = names::generate(meta::str(&object, "generateName"));
            meta::set(&mut object, "name", name);
        }
        let mut added = Along {
            dry_run: along.dry_run,
            companions: along.companions.clone(),
            warnings: along.warnings.clone(),
        };
        let (key, ready) = make_ready(call, &mut object, &mut added).await?;
        let warnings = [call.kind.warnings(&object, None), added.warnings.clone()].concat();
        let outcome = match options.dry_run {
            true => try_only(call, &key, &ready.written)?,
            false if given != 0 => return Err(version_given()),
            false => call.insert(&key, ready, added).await?,
        };
        match outcome {
            Outcome::Written(object) => {
                return Ok(Some(Response {
                    created: true,
                    warnings,
                    ..Response::of(Body::Object(object))
                }));
            }
            Outcome::CompanionOvertaken => return Ok(None),
            Outcome::Overtaken if !generated => return Err(already_exists(call, &key)),
            Outcome::Overtaken => {}
        }
    }
    Err(no_free_name(call, meta::name(&object)))
}

/// Brings a new object, which has its name, through the rules, up to the bytes to be stored.
async fn make_ready(call: &Call<'_>, object: &mut Tree, along: &mut Along) -> Result<(Key, Ready), Status> {
    set_system_fields(call, object);
    call.kind.prepare_create(object, &call.facts);
    call.check(meta::name(object), |errors| call.kind.validate(object, errors))?;
    call.kind.finish_create(object);
    call.admit(Operation::Create, Some(object), None, along).await?;
    let key = Key::new(call.namespace(), meta::name(object));
    let ready = call.resource.write(&key, object);
    Ok((key, ready))
}

/// Takes away what only the server may say, and says it.
pub(crate) fn set_system_fields(call: &Call<'_>, object: &mut Tree) {
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "selfLink",
    ] {
        meta::clear(object, field);
    }
    meta::set(object, "uid", uuid::Uuid::new_v4().to_string());
    meta::set(object, "creationTimestamp", meta::moment(call.facts.now));
}

/// The version that a new object claims to have. What does not read as one is ignored.
fn given_version(object: &Tree) -> u64 {
    meta::str(object, "resourceVersion").parse().unwrap_or_default()
}

fn version_given() -> Status {
    error::plain(500, "resourceVersion should not be set on objects to be created")
}

fn try_only(call: &Call<'_>, key: &Key, written: &Written) -> Result<Outcome, Status> {
    if call.find(key)?.is_some() {
        return Ok(Outcome::Overtaken);
    }
    Ok(Outcome::Written(call.unstored(key.clone(), written, None)?))
}

fn already_exists(call: &Call<'_>, key: &Key) -> Status {
    let mut status = Status::already_exists(&call.name, key.name());
    let existing = call.find(key).ok().flatten();
    if existing.is_some_and(|existing| existing.header().deleting) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

fn no_free_name(call: &Call<'_>, name: &str) -> Status {
    let mut status = Status::already_exists(&call.name, name);
    status.message = format!(
        "{}, the server was not able to generate a unique name for the object",
        status.message
    );
    status.details.get_or_insert_default().retry_after_seconds = 1;
    status
}

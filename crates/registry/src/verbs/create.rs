//! Create: stores a new object.
//!
//! The steps in order: decode the body and set its defaults, clear the system fields, set the namespace and the managed
//! fields (all of [`NewObject::compute`]), run mutating admission ([`create_object`]), then generate the name, set the
//! system fields, prepare and validate by the rules of the kind, run validating admission, encode, check the size and
//! commit ([`insert_object`]).
//!
//! A create starts again from the body only if a side write of admission has a conflict, and from the name only if a
//! generated name is taken.

use std::sync::Arc;

use setpoint_api::call::Body;
use setpoint_api::options::WriteOptions;
use setpoint_api::{ApiVerb, Key, Payload, Response, Status, Stored};
use setpoint_schema::{CanonicalJson, Tree, fields};
use setpoint_strategy::meta;

use super::apply::AppliedConfiguration;
use crate::admission::{AdmissionEffects, ReviewedWrite};
use crate::commit::Outcome;
use crate::object_size::SizePolicy;
use crate::request_context::RequestContext;
use crate::{confirmed_read, error, field_managers, names};

/// How many times a create is tried when a side write has a conflict.
const MAX_ATTEMPTS: usize = 64;

/// Where a new object comes from. Admission changes the object, so each attempt computes it again.
#[derive(Debug)]
pub(crate) enum NewObject<'a> {
    /// The body of a create. It is decoded again for the rare retry, which is cheaper than a copy for every create.
    Body(&'a Payload),
    /// The decoded body of an update of an object that does not exist.
    Update(&'a Tree),
    /// The configuration of an apply of an object that does not exist.
    Apply(&'a AppliedConfiguration),
}

/// A new object and its managed fields.
#[derive(Debug)]
struct ComputedObject {
    tree: Tree,
    /// The managed fields as JSON, if only the store needs them; else they are in the tree.
    managed_fields: Option<Vec<u8>>,
}

/// Creates the object of the body.
pub(crate) async fn create(
    context: &RequestContext<'_>,
    payload: Payload,
    options: WriteOptions,
) -> Result<Response, Status> {
    if context.kind_info().is_namespaced() && context.namespace().is_empty() {
        return Err(Status::method_not_allowed());
    }
    create_object(context, NewObject::Body(&payload), &options).await
}

/// Creates a new object: also for an update or an apply of an object that does not exist.
pub(crate) async fn create_object(
    context: &RequestContext<'_>,
    new: NewObject<'_>,
    options: &WriteOptions,
) -> Result<Response, Status> {
    for _ in 0..MAX_ATTEMPTS {
        let compute = || new.compute(context, options);
        let mut object = context.with_manager_versions(compute).await?;
        require_create_allowed(context, &object.tree)?;
        let mutated = context
            .mutate(ReviewedWrite::create(&mut object.tree, options))
            .await?;
        if let Some(stored) = insert_object(context, object, &mutated, (options, new.size_policy())).await? {
            return Ok(Response {
                created: true,
                ..Response::new(Body::Object(stored))
            });
        }
        confirmed_read::wait_after_conflict(context).await?;
    }
    Err(Status::internal("too many conflicts of side writes"))
}

/// Stores a new object after mutating admission. Returns none if a side write has a conflict.
async fn insert_object(
    context: &RequestContext<'_>,
    object: ComputedObject,
    mutated: &AdmissionEffects,
    (options, size_policy): (&WriteOptions, SizePolicy),
) -> Result<Option<Arc<Stored>>, Status> {
    let ComputedObject {
        tree: mut object,
        managed_fields,
    } = object;
    let version = submitted_version(&object);
    let is_generated = names::is_generated(&object);
    for _ in 0..=names::MAX_ATTEMPTS {
        if is_generated {
            let name = names::generate(meta::str(&object, "generateName"));
            meta::set(&mut object, "name", name);
        }
        set_system_fields(context, &mut object);
        context.kind.prepare_create(&mut object, &context.facts);
        context.validate(meta::name(&object), |errors| {
            context.kind.validate(&object, &context.facts, errors)
        })?;
        context.kind.finish_create(&mut object);
        let admitted = context.admit(ReviewedWrite::create(&mut object, options)).await?;
        let effects = mutated.clone().and(admitted);
        effects.drop_unknown_fields(&*context.kind, &mut object);
        let key = Key::new(context.namespace(), meta::name(&object));
        let stored = context.in_storage_version(&object).await?;
        let encoded = match &managed_fields {
            Some(json) => context.resource.encode_new(&key, &stored, json)?,
            None => context.resource.encode(&key, &stored)?,
        };
        let outcome = match options.dry_run {
            true => dry_run_outcome(context, &key, &encoded.written)?,
            false if version != 0 => return Err(version_not_allowed()),
            false => {
                let object = (&*stored, managed_fields.as_deref());
                let encoded = context.fit_new(&key, object, encoded, size_policy)?;
                context.insert(&key, encoded, effects.side_writes).await?
            }
        };
        match outcome {
            Outcome::Written(written) => {
                context.add_object_warnings(context.kind.warnings(&object, None), effects.warnings);
                return Ok(Some(written));
            }
            Outcome::SideWriteConflict => return Ok(None),
            Outcome::Conflict if !is_generated => return Err(already_exists(context, &key)),
            Outcome::Conflict => {}
        }
    }
    Err(no_free_name(context, meta::name(&object)))
}

impl NewObject<'_> {
    fn size_policy(&self) -> SizePolicy {
        match self {
            Self::Body(_) | Self::Update(_) => SizePolicy::DropManagedFields,
            Self::Apply(_) => SizePolicy::Reject,
        }
    }

    /// The object with its defaults, its namespace and its managed fields.
    fn compute(
        &self,
        context: &RequestContext<'_>,
        options: &WriteOptions,
    ) -> Result<ComputedObject, Status> {
        let mut tree = match self {
            Self::Body(payload) => {
                let mut object = context.decode(payload, options.field_validation)?;
                clear_system_fields(&mut object);
                context.default_namespace(&mut object)?;
                object
            }
            Self::Update(body) => {
                let mut object = Tree::clone(body);
                clear_system_fields(&mut object);
                meta::clear(&mut object, "resourceVersion");
                object
            }
            Self::Apply(applied) => {
                let tree = applied.merge(context, None, options)?;
                applied.check_duplicates(options.field_validation)?;
                let managed_fields = None;
                return Ok(ComputedObject { tree, managed_fields });
            }
        };
        let managed_fields = field_managers::of_new(context, &mut tree, options);
        Ok(ComputedObject { tree, managed_fields })
    }
}

/// Rejects a create while the CustomResourceDefinition of the kind is terminating.
fn require_create_allowed(context: &RequestContext<'_>, object: &Tree) -> Result<(), Status> {
    if context.kind_info().allows(ApiVerb::Create) {
        return Ok(());
    }
    let why = "create not allowed while custom resource definition is terminating";
    Err(Status::forbidden(&context.name, meta::name(object), why))
}

/// Clears the fields that only the server may set, before admission sees the object. Admission may set them again.
pub(crate) fn clear_system_fields(object: &mut Tree) {
    meta::clear_all(
        object,
        &[
            fields::CREATION_TIMESTAMP,
            fields::DELETION_GRACE_PERIOD_SECONDS,
            fields::DELETION_TIMESTAMP,
            fields::SELF_LINK,
            fields::UID,
        ],
    );
}

/// Sets the fields of a new object that only the server may set.
pub(crate) fn set_system_fields(context: &RequestContext<'_>, object: &mut Tree) {
    clear_system_fields(object);
    meta::clear(object, "resourceVersion");
    meta::set(object, "uid", random_uid());
    meta::set(object, "creationTimestamp", meta::timestamp(context.facts.now));
}

/// A random UID, of the generator of the thread: the kernel seeds it, and is not called for each object.
fn random_uid() -> String {
    let random = uuid::Builder::from_random_bytes(rand::random());
    random.into_uuid().to_string()
}

/// The resource version in a new object. Text that is not a number is ignored.
fn submitted_version(object: &Tree) -> u64 {
    meta::str(object, "resourceVersion").parse().unwrap_or_default()
}

fn version_not_allowed() -> Status {
    error::plain(500, "resourceVersion should not be set on objects to be created")
}

fn dry_run_outcome(
    context: &RequestContext<'_>,
    key: &Key,
    written: &CanonicalJson,
) -> Result<Outcome, Status> {
    if context.find(key)?.is_some() {
        return Ok(Outcome::Conflict);
    }
    let object = context.unstored_object(key, written, None)?;
    Ok(Outcome::Written(object))
}

fn already_exists(context: &RequestContext<'_>, key: &Key) -> Status {
    let mut status = Status::already_exists(&context.name, key.name());
    let existing = context.find(key).ok().flatten();
    if existing.is_some_and(|existing| existing.header().deleting) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

fn no_free_name(context: &RequestContext<'_>, name: &str) -> Status {
    let mut status = Status::already_exists(&context.name, name);
    status.message = format!(
        "{}, the server was not able to generate a unique name for the object",
        status.message
    );
    status.details.get_or_insert_default().retry_after_seconds = 1;
    status
}

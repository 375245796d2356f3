//! Delete: an object is removed, or marked as terminating until its grace period and finalizers are done.

use std::sync::Arc;

use setpoint_api::call::Body;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{GroupResource, Key, Response, Status, Stored};

use setpoint_store::{Compare, Op, Record, Txn};

use crate::admission::ReviewedWrite;
use crate::commit::Outcome;
use crate::deletion::{self, Step};
use crate::request_context::RequestContext;
use crate::{error, stored_object};

/// The state of an object after a delete request.
#[derive(Debug)]
pub(crate) enum DeleteOutcome {
    /// The object stays until its grace period and finalizers are done.
    Terminating(Arc<Stored>),
    /// The object is removed; this was its last state.
    Deleted(Arc<Stored>),
}

/// Deletes the object in the URL.
pub(crate) async fn delete(context: &RequestContext<'_>, options: DeleteOptions) -> Result<Response, Status> {
    let key = context.key()?;
    context.set_warnings(deletion_warnings(context, &options));
    if options.ignore_store_read_error {
        return remove_undecodable(context, &key, options.dry_run).await;
    }
    let outcome = delete_object(context, &key, &options).await?;
    let body = match outcome {
        DeleteOutcome::Terminating(object) => Body::Object(object),
        DeleteOutcome::Deleted(last) if context.kind_info().rules.deletion.returns_deleted => {
            Body::Object(last)
        }
        DeleteOutcome::Deleted(last) => {
            let status = Status::success(&context.name, key.name(), last.uid());
            Body::Status(Box::new(status))
        }
    };
    Ok(Response::new(body))
}

/// Removes an object that cannot be decoded (`ignoreStoreReadErrorWithClusterBreakingPotential`). One that can be
/// decoded must be deleted without the option.
async fn remove_undecodable(
    context: &RequestContext<'_>,
    key: &Key,
    dry_run: bool,
) -> Result<Response, Status> {
    let storage_key = context.storage_key(key);
    let record = context.backend().store.snapshot().get(&storage_key);
    let record = record.ok_or_else(|| context.not_found(key))?;
    if is_decodable(context, key, &record).await {
        let why = "unsafe deletion is not allowed because the object is decodable from storage";
        return Err(context.invalid_object(key, why));
    }
    if !dry_run {
        let txn = Txn {
            compares: vec![Compare::Modified {
                key: storage_key.clone(),
                revision: record.modified,
            }],
            ops: vec![Op::Delete { key: storage_key }],
        };
        let committed = context.backend().store.commit(txn).await;
        committed.map_err(error::from_store)?;
    }
    Ok(Response::new(Body::Status(Box::new(Status::ok()))))
}

/// Whether a stored object can be decoded, and be converted to the version of the request.
async fn is_decodable(context: &RequestContext<'_>, key: &Key, record: &Record) -> bool {
    let Ok(object) = context.resource.find_or_decode(key, record) else {
        return false;
    };
    let object = context.in_request_version(&object).await;
    object.is_ok_and(|object| context.kind.decode_stored(&object).is_ok())
}

/// The warning of some kinds about their dependents, for a request without `propagationPolicy`.
pub(super) fn deletion_warnings(context: &RequestContext<'_>, options: &DeleteOptions) -> Vec<String> {
    let warning = context.kind_info().rules.deletion.warning;
    let is_needed = options.propagation_policy.is_none() && !warning.is_empty();
    is_needed.then(|| warning.to_owned()).into_iter().collect()
}

/// Deletes one object, retrying on conflicts.
pub(crate) async fn delete_object(
    context: &RequestContext<'_>,
    key: &Key,
    options: &DeleteOptions,
) -> Result<DeleteOutcome, Status> {
    loop {
        let stored = context.require(key)?;
        let old = context.in_request_version(&stored).await;
        let old = old.map_err(|error| error.into_read_error(context.kind_info(), &stored))?;
        check_preconditions(context, &old, options)?;
        let mut object = context.kind.decode_stored(&old).map_err(error::undecodable)?;
        let step = deletion::begin(&*context.kind, &mut object, options, context.facts.now);
        if step == Step::Pending {
            return Ok(DeleteOutcome::Terminating(stored));
        }
        let mutated = context.mutate(ReviewedWrite::delete(&old, options)).await?;
        let admitted = context.admit(ReviewedWrite::delete(&old, options)).await?;
        let effects = mutated.and(admitted);
        context.add_object_warnings(Vec::new(), effects.warnings);
        let version = stored.resource_version();
        if step == Step::Remove && context.kind.webhook_conversion().is_some() {
            // A removal changes nothing that would have to be converted back.
            if options.dry_run {
                return Ok(DeleteOutcome::Deleted(stored));
            }
            let removed = context.remove(key, version, &stored, effects.side_writes).await?;
            match removed {
                Outcome::Written(last) => return Ok(DeleteOutcome::Deleted(last)),
                _ => continue,
            }
        }
        let object = context.in_storage_version(&object).await?;
        let encoded = context.resource.encode(key, &object)?;
        if step == Step::Mark && stored_object::is_same(stored.json(), &encoded.written) {
            return Ok(DeleteOutcome::Terminating(stored));
        }
        if options.dry_run {
            let object = context.unstored_object(key, &encoded.written, Some(version))?;
            return Ok(outcome_of(step, object));
        }
        let outcome = match step {
            Step::Remove => {
                let last = context.unstored_object(key, &encoded.written, Some(version))?;
                context.remove(key, version, &last, effects.side_writes).await?
            }
            _ => {
                context
                    .replace(key, version, encoded, effects.side_writes)
                    .await?
            }
        };
        if let Outcome::Written(object) = outcome {
            return Ok(outcome_of(step, object));
        }
    }
}

fn outcome_of(step: Step, object: Arc<Stored>) -> DeleteOutcome {
    match step {
        Step::Remove => DeleteOutcome::Deleted(object),
        _ => DeleteOutcome::Terminating(object),
    }
}

/// Checks the preconditions of the request. Their errors name the kind, not the resource.
fn check_preconditions(
    context: &RequestContext<'_>,
    old: &Stored,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let kind = GroupResource::new(&context.kind_info().gvk.group, &context.kind_info().gvk.kind);
    let conflict = |why: String| Err(Status::conflict(&kind, old.key().name(), &why));
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != old.uid()) {
        return conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            old.uid()
        ));
    }
    let stored = old.resource_version().to_string();
    if let Some(version) = options
        .resource_version
        .as_deref()
        .filter(|version| *version != stored)
    {
        return conflict(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({stored}). The object might have been modified"
        ));
    }
    Ok(())
}

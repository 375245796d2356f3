//! Delete: an object goes, now or in its own time.

use std::sync::Arc;

use setpoint_api::call::Body;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{GroupResource, Key, Response, Status, Stored};

use setpoint_store::{Compare, Op, Txn};

use crate::admit::Operation;
use crate::call::{Along, Call, Outcome};
use crate::deletion::{self, Step};
use crate::{document, error};

/// What is left after a deletion.
#[derive(Debug)]
pub(crate) enum Left {
    /// The object stays for now, as it is here.
    Going(Arc<Stored>),
    /// It is gone; this was its last state.
    Gone(Arc<Stored>),
}

/// Deletes the object the request points at.
pub(crate) async fn delete(call: &Call<'_>, options: &DeleteOptions) -> Result<Response, Status> {
    let key = call.key()?;
    let warnings = warnings(call, options);
    call.say(&warnings);
    if options.unreadable_only {
        return remove_unreadable(call, &key, options.dry_run).await;
    }
    let left = delete_object(call, &key, options).await?;
    let body = match left {
        Left::Going(object) => Body::Object(object),
        Left::Gone(last) if call.about().rules.returns_deleted => Body::Object(last),
        Left::Gone(last) => {
            let status = Status::success(&call.name, key.name(), last.uid());
            Body::Status(Box::new(status))
        }
    };
    Ok(Response {
        warnings,
        ..Response::of(body)
    })
}

/// Removes an object that nobody can read any more. One that can be read goes by the usual way only.
async fn remove_unreadable(call: &Call<'_>, key: &Key, dry_run: bool) -> Result<Response, Status> {
    let place = call.stored_at(key);
    let record = call.registry.store.snapshot().get(&place);
    let record = record.ok_or_else(|| call.not_found(key))?;
    let read = call.resource.shared(key, &record);
    if read.and_then(|object| call.kind.revise(&object)).is_ok() {
        let why = "unsafe deletion is not allowed because the object is decodable from storage";
        return Err(call.invalid_object(key, why));
    }
    if !dry_run {
        let txn = Txn {
            compares: vec![Compare::Modified {
                key: place.clone(),
                revision: record.modified,
            }],
            ops: vec![Op::Delete { key: place }],
        };
        let committed = call.registry.store.commit(txn).await;
        committed.map_err(error::status)?;
    }
    Ok(Response::of(Body::Status(Box::new(Status::done()))))
}

/// Some kinds tell what becomes of dependents when the request does not say.
pub(super) fn warnings(call: &Call<'_>, options: &DeleteOptions) -> Vec<String> {
    let warning = call.about().rules.deletion_warning;
    let said = options.propagation.is_some() || warning.is_empty();
    (!said).then(|| warning.to_owned()).into_iter().collect()
}

/// Deletes one object, trying again while others change it.
pub(crate) async fn delete_object(
    call: &Call<'_>,
    key: &Key,
    options: &DeleteOptions,
) -> Result<Left, Status> {
    loop {
        let old = call.find(key)?.ok_or_else(|| call.not_found(key))?;
        require(call, &old, options)?;
        let mut along = Along::new(options.dry_run);
        call.admit(Operation::Delete, None, Some(&old), &mut along)
            .await?;
        let mut object = call.kind.revise(&old).map_err(error::unreadable)?;
        let step = deletion::begin(&*call.kind, &mut object, options, call.facts.now);
        let ready = call.resource.write(key, &object);
        if step == Step::Pending || (step == Step::Mark && document::is_same(old.json(), &ready.written)) {
            return Ok(Left::Going(old));
        }
        let version = old.resource_version();
        if options.dry_run {
            let object = call.unstored(key.clone(), &ready.written, Some(version))?;
            return Ok(left(step, object));
        }
        let outcome = match step {
            Step::Remove => {
                let last = call.unstored(key.clone(), &ready.written, Some(version))?;
                call.remove(key, version, &last, along).await?
            }
            _ => call.replace(key, version, ready, along).await?,
        };
        if let Outcome::Written(object) = outcome {
            return Ok(left(step, object));
        }
    }
}

fn left(step: Step, object: Arc<Stored>) -> Left {
    match step {
        Step::Remove => Left::Gone(object),
        _ => Left::Going(object),
    }
}

/// The object must be the one the caller has in mind. These answers name the kind, not the resource.
fn require(call: &Call<'_>, old: &Stored, options: &DeleteOptions) -> Result<(), Status> {
    let kind = GroupResource::new(&call.about().gvk.group, &call.about().gvk.kind);
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

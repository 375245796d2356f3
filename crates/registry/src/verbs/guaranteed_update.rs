//! The update loop of every write to an existing object: update, patch, apply and the subresources that write.
//!
//! An attempt runs all steps against the newest object, as the update function that Kubernetes passes to its storage's
//! `GuaranteedUpdate` does: compute the new object, run mutating admission, keep the system fields, prepare and validate
//! by the rules of the kind, run validating admission, encode and commit. After a conflict the next attempt starts.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use setpoint_api::options::WriteOptions;
use setpoint_api::{ResourceVersion, Status, Stored};
use setpoint_registry_api::SideWrite;
use setpoint_schema::Tree;
use setpoint_strategy::{SubresourceKind, UpdateContext, meta};

use crate::admission::ReviewedWrite;
use crate::commit::Outcome;
use crate::large_requests::LARGE_BYTES;
use crate::object_size::SizePolicy;
use crate::request_context::RequestContext;
use crate::{confirmed_read, deletion, error, field_managers, stored_object};

/// How the new object of an update is computed from the stored one (upstream: `rest.UpdatedObjectInfo`).
pub(crate) trait UpdatedObject: Sync {
    /// The new object, with its defaults and its managed fields, or a body that stands for it. Called in each attempt,
    /// with the newest stored object and its tree: of custom kinds in the version of the request, of others in the
    /// storage version.
    fn compute(
        &self,
        context: &RequestContext<'_>,
        old: &Arc<Stored>,
        old_tree: &Tree,
    ) -> Result<Tree, Status>;

    /// The old state of the body that is computed, if that is not the object itself: the Scale of the stored object.
    fn old_body(&self, _context: &RequestContext<'_>, _old: &Arc<Stored>) -> Result<Option<Tree>, Status> {
        Ok(None)
    }

    /// The new object, from what [`UpdatedObject::compute`] has returned and mutating admission has changed.
    fn finish(
        &self,
        _context: &RequestContext<'_>,
        _old: (&Arc<Stored>, &Tree),
        computed: Tree,
    ) -> Result<Tree, Status> {
        Ok(computed)
    }

    /// The body that validating admission sees, if that is not the object itself: the Scale of the new object.
    fn new_body(&self, _context: &RequestContext<'_>, _object: &Tree) -> Result<Option<Tree>, Status> {
        Ok(None)
    }

    /// The version that the request requires the stored object to have. With one, a conflict fails the request.
    fn required_version(&self) -> Option<ResourceVersion> {
        None
    }

    /// Whether the new object may be invalid. One that only gets values which were checked before, on a valid object, is
    /// not validated again, as a Binding of kube-apiserver.
    fn needs_validation(&self) -> bool {
        true
    }

    /// What happens to a new object that is too large.
    fn size_policy(&self) -> SizePolicy {
        SizePolicy::DropManagedFields
    }
}

/// Updates the object in the URL, or the fields of it that the subresource covers. Retries until there is no conflict.
pub(crate) async fn guaranteed_update(
    context: &RequestContext<'_>,
    subresource: Option<SubresourceKind>,
    options: &WriteOptions,
    updated: &dyn UpdatedObject,
) -> Result<Arc<Stored>, Status> {
    let key = context.key()?;
    loop {
        let old = context.require(&key)?;
        // Not moved from a variable, in which the large future would be stored once more.
        let outcome = match !context.is_large && old.json().len() > LARGE_BYTES {
            true => {
                let attempt = Box::pin(try_update(context, subresource, options, updated, &old));
                context.registry.large_requests.run(attempt).await?
            }
            false => try_update(context, subresource, options, updated, &old).await?,
        };
        match outcome {
            Outcome::Written(stored) => return Ok(stored),
            Outcome::Conflict if updated.required_version().is_some() => {
                // An object that was deleted meanwhile is not found; it has no newer version to apply the changes to.
                context.require(&key)?;
                return Err(Status::modified(&context.name, key.name()));
            }
            Outcome::Conflict => {}
            Outcome::SideWriteConflict => confirmed_read::wait_after_conflict(context).await?,
        }
    }
}

/// One attempt of an update, against the newest object.
async fn try_update(
    context: &RequestContext<'_>,
    subresource: Option<SubresourceKind>,
    options: &WriteOptions,
    updated: &dyn UpdatedObject,
    stored: &Arc<Stored>,
) -> Result<Outcome, Status> {
    let is_action = matches!(subresource, Some(SubresourceKind::Action(_)));
    let version = stored.resource_version();
    let old = context.in_request_version(stored).await;
    let old = &old.map_err(|error| error.into_update_error(version))?;
    let old_tree = context.kind.decode_stored(old).map_err(error::undecodable)?;
    let compute = || updated.compute(context, old, &old_tree);
    let mut object = context.with_manager_versions(compute).await?;
    let old_body = updated.old_body(context, old)?;
    let reviewed = ReviewedWrite::update(&mut object, old, old_body.as_ref(), options);
    let mutated = context.mutate(reviewed).await?;
    let mut object = updated.finish(context, (old, &old_tree), object)?;
    keep_system_fields(&mut object, &old_tree);
    let update = UpdateContext {
        old: &old_tree,
        subresource,
        facts: &context.facts,
    };
    context.kind.prepare_update(&mut object, &update);
    // An action has no field manager: the managed fields are those of the old object.
    if !is_action {
        field_managers::keep_unchanged_managers(&old_tree, &mut object);
    }
    if updated.needs_validation() {
        context.validate(meta::name(&object), |errors| {
            context.kind.validate_update(&object, &update, errors);
        })?;
    }
    set_version(&mut object, old);
    let mut new_body = updated.new_body(context, &object)?;
    let new = new_body.as_mut().unwrap_or(&mut object);
    let reviewed = ReviewedWrite::update(new, old, old_body.as_ref(), options);
    let admitted = context.admit(reviewed).await?;
    let effects = mutated.and(admitted);
    effects.drop_unknown_fields(&*context.kind, &mut object);
    let new = (&object, updated.size_policy());
    let outcome = commit(context, stored, new, effects.side_writes, options.dry_run).await?;
    // An action subresource returns a status, and no warnings about the object.
    if matches!(outcome, Outcome::Written(_)) && !is_action {
        let warnings = context.kind.warnings(&object, Some(&old_tree));
        context.add_object_warnings(warnings, effects.warnings);
    }
    Ok(outcome)
}

/// Commits the object, or removes it if this update finishes its deletion. An update without changes is not committed.
async fn commit(
    context: &RequestContext<'_>,
    old: &Arc<Stored>,
    (object, size_policy): (&Tree, SizePolicy),
    side_writes: Vec<SideWrite>,
    dry_run: bool,
) -> Result<Outcome, Status> {
    let (key, version) = (old.key(), old.resource_version());
    let object = &*context.in_storage_version(object).await?;
    let encoded = context.resource.encode(key, object)?;
    if deletion::is_finished(&*context.kind, object) {
        let last = context.unstored_object(key, &encoded.written, Some(version))?;
        return match dry_run {
            true => Ok(Outcome::Written(last)),
            false => context.remove(key, version, &last, side_writes).await,
        };
    }
    let is_same = stored_object::is_same(old.json(), &encoded.written);
    let is_stale = || context.backend().store.is_stale(&context.storage_key(key));
    if is_same && context.kind.expires_after(&context.facts).is_none() && !is_stale() {
        let counters = &context.registry.counters;
        counters.unchanged_writes.fetch_add(1, Relaxed);
        return Ok(Outcome::Written(old.clone()));
    }
    if dry_run {
        let object = context.unstored_object(key, &encoded.written, Some(version))?;
        return Ok(Outcome::Written(object));
    }
    let encoded = context.fit(key, object, encoded, size_policy)?;
    context.replace(key, version, encoded, side_writes).await
}

/// Sets the resource version that the update is based on, if the request did not: validating admission sees it.
fn set_version(object: &mut Tree, old: &Stored) {
    if meta::str(object, "resourceVersion").is_empty() {
        meta::set(object, "resourceVersion", old.resource_version().to_string());
    }
}

/// Keeps the fields that an update cannot change.
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

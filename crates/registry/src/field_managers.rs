//! `metadata.managedFields`: which manager owns which field, updated on every write.

use std::cell::OnceCell;
use std::sync::Arc;

use setpoint_api::options::{FieldValidation, WriteOptions};
use setpoint_schema::apply::{
    self, Conflicts, Error, FieldManager, FieldSet, Force, SCALE_VERSION, VersionConverter,
};
use setpoint_schema::{EmptyCollections, Map, Shape, Tree, fields};
use setpoint_strategy::{Kind, SubresourceKind, meta};

use setpoint_api::status::StatusCause;
use setpoint_api::{Gvk, Status};
use setpoint_codec::json::scan;

use crate::admission::ReviewedWrite;
use crate::error;
use crate::request_context::RequestContext;

/// Updates the managed fields of an object that is created, updated or patched; `old` is absent in a create.
pub(crate) fn update(
    context: &RequestContext<'_>,
    old: Option<&Tree>,
    object: &mut Tree,
    options: &WriteOptions,
) {
    let Some(mut served) = context.kind.tree_to_request_version(object) else {
        return update_in_version(context, old, object, options);
    };
    let old = old.and_then(|old| context.kind.tree_to_request_version(old));
    update_in_version(context, old.as_ref(), &mut served, options);
    meta::copy(object, &served, "managedFields");
}

/// Computes the managed fields of a new object. They are returned as JSON if only the store will read them, else set in
/// the object.
pub(crate) fn of_new(
    context: &RequestContext<'_>,
    object: &mut Tree,
    options: &WriteOptions,
) -> Option<Vec<u8>> {
    if !are_for_store_only(context, object, options) {
        update(context, None, object, options);
        return None;
    }
    let json = with_manager(context, options, |manager| {
        apply::managed_fields_of_new(object, context.kind.shape(), manager)
    });
    debug_assert_eq!(
        text(json.clone()),
        text(written_by_update(context, object, options))
    );
    json
}

/// Whether a new object has no managers yet, is stored in the version of the request, and is not shown to a webhook or a
/// policy.
fn are_for_store_only(context: &RequestContext<'_>, object: &mut Tree, options: &WriteOptions) -> bool {
    let info = context.kind_info();
    !info.is_custom
        && info.gvr == info.storage
        && meta::find(object, fields::MANAGED_FIELDS).is_none()
        && !context.shows_object(ReviewedWrite::create(object, options))
}

/// The managed fields that [`update`] sets, in canonical JSON.
fn written_by_update(context: &RequestContext<'_>, object: &Tree, options: &WriteOptions) -> Option<Vec<u8>> {
    let mut object = object.clone();
    update(context, None, &mut object, options);
    let written = setpoint_schema::write(context.kind.shape(), &object, EmptyCollections::Keep);
    let metadata = scan::find_member(&written.bytes, fields::METADATA)?;
    scan::find_member(metadata, fields::MANAGED_FIELDS).map(<[u8]>::to_vec)
}

fn text(json: Option<Vec<u8>>) -> Option<String> {
    json.map(|json| String::from_utf8_lossy(&json).into_owned())
}

/// Fields are owned in the version of the request, whichever version is stored.
fn update_in_version(
    context: &RequestContext<'_>,
    old: Option<&Tree>,
    object: &mut Tree,
    options: &WriteOptions,
) {
    let nothing = Tree::Map(Map::default());
    let shape = context.kind.shape();
    if !is_tracked(context, shape, object) {
        match old.and_then(|old| meta::find(old, fields::MANAGED_FIELDS)) {
            Some(before) => meta::set(object, fields::MANAGED_FIELDS, before.clone()),
            None => meta::clear(object, fields::MANAGED_FIELDS),
        }
        return;
    }
    let has_unknown_version = has_manager_of_unknown_version(context, object);
    if has_unknown_version {
        meta::clear(object, fields::MANAGED_FIELDS);
    }
    if has_unknown_version && old.is_none() {
        return;
    }
    with_manager(context, options, |manager| {
        apply::update(old.unwrap_or(&nothing), object, shape, manager);
    });
}

/// Whether a custom object names a manager in a version that its kind does not have. Upstream fails to convert the object
/// to it, and drops the managers of the request; an update keeps those of the live object. A manager of a built-in kind
/// is dropped alone.
fn has_manager_of_unknown_version(context: &RequestContext<'_>, object: &Tree) -> bool {
    if !context.kind_info().is_custom || context.target.subresource.is_some() {
        return false;
    }
    let versions = KindVersions::of(context);
    let entries = object
        .get(fields::METADATA)
        .map_or(&[][..], |metadata| metadata.items(fields::MANAGED_FIELDS));
    // Managers that cannot be decoded count as absent.
    let is_decodable = |entry: &Tree| entry.str_at(&[fields::FIELDS_TYPE]) == Some("FieldsV1");
    let mut versions_of = entries
        .iter()
        .filter_map(|entry| entry.str_at(&[fields::API_VERSION]));
    entries.iter().all(is_decodable)
        && versions_of.any(|version| !version.is_empty() && versions.find(version).is_none())
}

/// Whether the fields of an object can be owned. Validation rejects values of a wrong type, except in the fields that the
/// write resets: the status of a custom object, or in a write of the status the rest. With one of those upstream leaves the
/// managers as they are.
fn is_tracked(context: &RequestContext<'_>, shape: &Shape, object: &Tree) -> bool {
    let info = context.kind_info();
    !info.is_custom || !info.has_status() || apply::is_typed(shape, object)
}

/// Merges an applied configuration into the live object.
pub(crate) fn apply(
    context: &RequestContext<'_>,
    live: Option<&Tree>,
    applied: &Tree,
    options: &WriteOptions,
) -> Result<Tree, Status> {
    let nothing = Tree::Map(Map::default());
    let force = if options.force { Force::Yes } else { Force::No };
    let shape = context.kind.shape();
    let applied = with_manager(context, options, |manager| {
        apply::apply(live.unwrap_or(&nothing), applied, shape, manager, force)
    });
    applied.map_err(apply_error)
}

/// Sets the managed fields of the body of a subresource that is created and not stored.
pub(crate) fn track_body(
    context: &RequestContext<'_>,
    body: &mut Tree,
    (gvk, shape): (&Gvk, &Shape),
    options: &WriteOptions,
) {
    let (nothing, api_version) = (Tree::Map(Map::default()), gvk.api_version());
    with_manager(context, options, |manager| {
        let manager = FieldManager {
            api_version: &api_version,
            converter: None,
            ..*manager
        };
        apply::update(&nothing, body, shape, &manager);
    });
}

/// Updates the managed fields of a Scale that is updated or patched.
pub(crate) fn update_scale(
    context: &RequestContext<'_>,
    old: &Tree,
    scale: &mut Tree,
    shape: &Shape,
    options: &WriteOptions,
) {
    with_manager(context, options, |manager| {
        apply::update(old, scale, shape, &for_scale(manager));
    });
}

/// Merges an applied Scale into the live one.
pub(crate) fn apply_scale(
    context: &RequestContext<'_>,
    old: &Tree,
    applied: &Tree,
    shape: &Shape,
    options: &WriteOptions,
) -> Result<Tree, Status> {
    let force = if options.force { Force::Yes } else { Force::No };
    let applied = with_manager(context, options, |manager| {
        apply::apply(old, applied, shape, &for_scale(manager), force)
    });
    applied.map_err(apply_error)
}

/// The manager in the version of Scale.
fn for_scale<'a>(manager: &FieldManager<'a>) -> FieldManager<'a> {
    FieldManager {
        api_version: SCALE_VERSION,
        converter: None,
        ..*manager
    }
}

/// Keeps the old timestamps of managers whose fields did not change, so that a write without changes is a no-op.
pub(crate) fn keep_unchanged_managers(old: &Tree, object: &mut Tree) {
    apply::keep_timestamps_if_unchanged(old, object);
}

fn with_manager<T>(
    context: &RequestContext<'_>,
    options: &WriteOptions,
    run: impl FnOnce(&FieldManager<'_>) -> T,
) -> T {
    let now = meta::timestamp(context.facts.now);
    let manager = FieldManager {
        name: options.manager(),
        api_version: &context.kind_info().gvk.api_version(),
        subresource: context.target.subresource.as_deref().unwrap_or_default(),
        now: now.as_str().unwrap_or_default(),
        reset: &reset_fields(context),
        converter: Some(&KindVersions::of(context)),
    };
    run(&manager)
}

/// The served versions of the kind that is written, looked up on first use.
#[derive(Debug)]
struct KindVersions<'a> {
    context: &'a RequestContext<'a>,
    kinds: OnceCell<Vec<Arc<dyn Kind>>>,
}

impl<'a> KindVersions<'a> {
    fn of(context: &'a RequestContext<'a>) -> Self {
        Self {
            context,
            kinds: OnceCell::new(),
        }
    }

    fn find(&self, api_version: &str) -> Option<&Arc<dyn Kind>> {
        let kinds = self
            .kinds
            .get_or_init(|| self.context.registry.versions_of(self.context.kind_info()));
        kinds
            .iter()
            .find(|kind| kind.info().gvk.api_version() == api_version)
    }
}

impl VersionConverter for KindVersions<'_> {
    fn shape(&self, api_version: &str) -> Option<&Shape> {
        self.find(api_version).map(|kind| kind.shape())
    }

    /// Converts through the storage version, or directly by a webhook.
    fn convert(&self, object: &Tree, api_version: &str) -> Option<Tree> {
        let kind = self.find(api_version)?;
        let request_kind = &self.context.kind;
        if request_kind.webhook_conversion().is_some() {
            return self.context.manager_versions.lock().find(object, api_version);
        }
        let mut stored = request_kind
            .conform(object.clone(), FieldValidation::Ignore)
            .ok()?
            .tree;
        request_kind.prepare_input(&mut stored).ok()?;
        Some(kind.tree_to_request_version(&stored).unwrap_or(stored))
    }
}

/// Fields that the kind's strategy resets and no manager may own: the status, and in a write of the status all else.
fn reset_fields(context: &RequestContext<'_>) -> FieldSet {
    let info = context.kind_info();
    let has_status = info.has_status();
    let subresource = context.target.subresource.as_deref();
    let subresource = subresource.and_then(|name| info.find_subresource(name));
    match subresource.map(|subresource| subresource.kind) {
        None if has_status => {
            let fields = info.rules.write.reset_fields.iter().copied();
            FieldSet::of_fields([["status"].as_slice()].into_iter().chain(fields))
        }
        Some(SubresourceKind::Status) => {
            FieldSet::of_fields(info.rules.write.status_reset_fields.iter().copied())
        }
        _ => FieldSet::default(),
    }
}

fn apply_error(failed: Error) -> Status {
    match failed {
        Error::ManagedFieldsNotNil => Status::bad_request(failed.to_string()),
        Error::Untyped { .. } => error::plain(500, failed.to_string()),
        Error::Conflicts(conflicts) => conflict(&conflicts),
    }
}

fn conflict(conflicts: &Conflicts) -> Status {
    let causes = conflicts.list.iter().map(|conflict| StatusCause {
        reason: "FieldManagerConflict".to_owned(),
        message: conflict.message(),
        field: conflict.path.clone(),
    });
    let mut status = Status {
        reason: "Conflict".to_owned(),
        ..error::plain(409, conflicts.to_string())
    };
    status.details.get_or_insert_default().causes = causes.collect();
    status
}

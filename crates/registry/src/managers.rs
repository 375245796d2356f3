//! Who owns which field, kept on every write.

use std::cell::OnceCell;
use std::sync::Arc;

use setpoint_api::options::{FieldValidation, WriteOptions};
use setpoint_kinds::{Kind, Part, meta};
use setpoint_schema::apply::{self, Conflicts, Error, FieldSet, Force, Manager, SCALE_VERSION, Versions};
use setpoint_schema::{Map, Shape, Tree};

use setpoint_api::Status;
use setpoint_api::status::StatusCause;

use crate::call::Call;
use crate::error;

/// Writes the owners into an object that is created, updated or patched; `old` is absent in a create.
pub(crate) fn update(call: &Call<'_>, old: Option<&Tree>, object: &mut Tree, options: &WriteOptions) {
    let Some(mut served) = call.kind.served(object) else {
        return update_in_version(call, old, object, options);
    };
    let old = old.and_then(|old| call.kind.served(old));
    update_in_version(call, old.as_ref(), &mut served, options);
    meta::copy(object, &served, "managedFields");
}

/// Fields are owned in the version of the request, whatever version is stored.
fn update_in_version(call: &Call<'_>, old: Option<&Tree>, object: &mut Tree, options: &WriteOptions) {
    let nothing = Tree::Map(Map::default());
    let shape = call.kind.shape();
    with_manager(call, options, |manager| {
        apply::update(old.unwrap_or(&nothing), object, shape, manager);
    });
}

/// The object that an applied document makes of the live one.
pub(crate) fn apply(
    call: &Call<'_>,
    live: Option<&Tree>,
    applied: &Tree,
    options: &WriteOptions,
) -> Result<Tree, Status> {
    let nothing = Tree::Map(Map::default());
    let force = if options.force { Force::Yes } else { Force::No };
    let shape = call.kind.shape();
    let applied = with_manager(call, options, |manager| {
        apply::apply(live.unwrap_or(&nothing), applied, shape, manager, force)
    });
    applied.map_err(refused)
}

/// Writes the owners into a scale that is updated or patched.
pub(crate) fn update_scale(
    call: &Call<'_>,
    old: &Tree,
    scale: &mut Tree,
    shape: &Shape,
    options: &WriteOptions,
) {
    with_manager(call, options, |manager| {
        apply::update(old, scale, shape, &in_scale(manager));
    });
}

/// The scale that an applied one makes of the one that is there.
pub(crate) fn apply_scale(
    call: &Call<'_>,
    old: &Tree,
    applied: &Tree,
    shape: &Shape,
    options: &WriteOptions,
) -> Result<Tree, Status> {
    let force = if options.force { Force::Yes } else { Force::No };
    let applied = with_manager(call, options, |manager| {
        apply::apply(old, applied, shape, &in_scale(manager), force)
    });
    applied.map_err(refused)
}

/// The manager as a scale knows it, which has a version of its own.
fn in_scale<'a>(manager: &Manager<'a>) -> Manager<'a> {
    Manager {
        api_version: SCALE_VERSION,
        versions: None,
        ..*manager
    }
}

/// A write that only moves the times of owners is no write.
pub(crate) fn settle(old: &Tree, object: &mut Tree) {
    apply::settle_times(old, object);
}

fn with_manager<T>(call: &Call<'_>, options: &WriteOptions, run: impl FnOnce(&Manager<'_>) -> T) -> T {
    let now = meta::moment(call.facts.now);
    let manager = Manager {
        name: options.manager(),
        api_version: &call.about().gvk.api_version(),
        subresource: call.target.subresource.as_deref().unwrap_or_default(),
        now: now.as_str().unwrap_or_default(),
        reset: &reset(call),
        versions: Some(&Siblings::of(call)),
    };
    run(&manager)
}

/// The versions of the kind that is written, looked up when someone asks.
#[derive(Debug)]
struct Siblings<'a> {
    call: &'a Call<'a>,
    kinds: OnceCell<Vec<Arc<dyn Kind>>>,
}

impl<'a> Siblings<'a> {
    fn of(call: &'a Call<'a>) -> Self {
        Self {
            call,
            kinds: OnceCell::new(),
        }
    }

    fn find(&self, api_version: &str) -> Option<&Arc<dyn Kind>> {
        let kinds = self
            .kinds
            .get_or_init(|| self.call.registry.versions_of(self.call.about()));
        kinds
            .iter()
            .find(|kind| kind.about().gvk.api_version() == api_version)
    }
}

impl Versions for Siblings<'_> {
    fn shape(&self, api_version: &str) -> Option<&Shape> {
        self.find(api_version).map(|kind| kind.shape())
    }

    /// By way of the stored version.
    fn convert(&self, document: &Tree, api_version: &str) -> Option<Tree> {
        let kind = self.find(api_version)?;
        let own = &self.call.kind;
        let mut stored = own.conform(document.clone(), FieldValidation::Ignore).ok()?.tree;
        own.take_in(&mut stored).ok()?;
        Some(kind.served(&stored).unwrap_or(stored))
    }
}

/// What the kind resets whatever the request says: the status outside its subresource, and all else inside it.
fn reset(call: &Call<'_>) -> FieldSet {
    let about = call.about();
    let has_status = about.find_subresource("status").is_some();
    let subresource = call.target.subresource.as_deref();
    let part = subresource.and_then(|name| about.find_subresource(name));
    match part.map(|part| part.part) {
        None if has_status => {
            let own = about.rules.resets.iter().copied();
            FieldSet::of_fields([["status"].as_slice()].into_iter().chain(own))
        }
        Some(Part::Status) => FieldSet::of_fields(about.rules.status_resets.iter().copied()),
        _ => FieldSet::default(),
    }
}

fn refused(failed: Error) -> Status {
    match failed {
        Error::ManagedFieldsGiven => Status::bad_request(failed.to_string()),
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

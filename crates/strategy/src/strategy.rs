//! [`Strategy`]: what the author of a kind implements, and the types it uses.
//!
//! Everything but the names and [`Strategy::validate`] has a default, so a small kind is a small file.

mod rules;
mod subresource;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;

use setpoint_api::{Stored, User};
use setpoint_schema::{Tree, fields};

use crate::columns::{self, Column};
use crate::field::FieldRef;
use crate::kind::InvalidObject;
use crate::new_members::NewMember;
use crate::top_level;

pub use rules::{DeletionRules, EtcdEncoding, NameRule, ResourceRules, Rules, UpstreamQuirks, WriteRules};
pub use subresource::{Action, ConnectKind, PartialRules, Subresource, SubresourceKind};

/// The rules of one kind, on its object tree.
///
/// Every object is pruned to the shape and in normal form: see [`crate::normal_form`]. On a create the order is:
/// defaults, [`Strategy::prepare_create`], [`Strategy::validate`]. On an update: defaults,
/// [`Strategy::prepare_update`] (or [`Strategy::prepare_status`], or the [`PartialRules`] of a subresource), then
/// validation. The server prepares and validates metadata before each of them.
pub trait Strategy: Debug + Send + Sync + 'static {
    /// Group, version and kind.
    const KIND: (&'static str, &'static str, &'static str);
    const NAMES: Names;
    const SCOPE: Scope = Scope::Namespaced;
    const COLUMNS: &'static [Column] = &[columns::NAME, columns::AGE];
    /// The selectable fields besides name and namespace.
    const FIELDS: &'static [FieldLabel] = &[];
    const SUBRESOURCES: &'static [Subresource] = &[];
    const RULES: Rules = Rules::DEFAULT;

    /// Sets the defaults of absent fields, on every object in a request. Must depend on nothing but the object.
    fn default_fields(_object: &mut Tree) {}

    /// Sets defaults that depend on the request. Runs after [`Strategy::default_fields`], on objects in request
    /// bodies.
    fn default_for_request(_object: &mut Tree, _facts: &RequestFacts) {}

    /// Sets the fields that only the server sets on a new object, and drops those that the caller may not set: the
    /// status, if it is a subresource.
    fn prepare_create(object: &mut Tree, _facts: &RequestFacts) {
        if has_status::<Self>() {
            top_level::drop(object, fields::STATUS);
        }
    }

    /// Completes a valid new object.
    fn finish_create(_object: &mut Tree) {}

    /// Keeps the fields that an update of the main resource may not change, above all the status.
    fn prepare_update(object: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        if has_status::<Self>() {
            top_level::keep(object, old, fields::STATUS);
        }
    }

    /// Keeps everything but the status and the metadata.
    fn prepare_status(object: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep_all_except(object, old, &[fields::METADATA, fields::STATUS]);
    }

    /// Changes an object as the body of an action subresource requests; see [`SubresourceKind::Action`].
    fn apply_action(_object: &mut Tree, _action: Action, _body: &Tree, _facts: &RequestFacts) {}

    /// The members that [`Strategy::apply_action`] adds to a stored object if it has none of them, if it does nothing else.
    /// Then the object need not be decoded.
    fn new_members_of_action(
        _action: Action,
        _object: &Stored,
        _body: &Tree,
        _facts: &RequestFacts,
    ) -> Option<Vec<NewMember>> {
        None
    }

    /// Validates a new object.
    fn validate(object: &FieldRef<'_>, facts: &RequestFacts);

    /// Validates the new object of an update by itself: by default like a new object.
    fn validate_for_update(object: &FieldRef<'_>, _old: &FieldRef<'_>, facts: &RequestFacts) {
        Self::validate(object, facts);
    }

    /// Validates the changes of an update.
    fn validate_update(_object: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {}

    /// Validates a status update.
    fn validate_status(_object: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {}

    /// Warnings about a valid object, for the response's `Warning` headers.
    fn warnings(_object: &FieldRef<'_>, _old: Option<&FieldRef<'_>>) -> Vec<String> {
        Vec::new()
    }

    /// Whether an update changes the spec, so that the generation is incremented. Only called if
    /// [`WriteRules::tracks_generation`].
    fn changes_spec(object: &Tree, old: &Tree) -> bool {
        top_level::differ_except(object, old, &[fields::METADATA, fields::STATUS])
    }

    /// The grace period in seconds, given the requested one; `None` if the kind has no graceful deletion.
    fn grace_period(_object: &Tree, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Changes the object, besides its metadata, when its deletion begins.
    fn begin_deletion(_object: &mut Tree) {}

    /// Whether something other than `metadata.finalizers` keeps an object that is being deleted.
    fn is_held(_object: &Tree) -> bool {
        false
    }

    /// How long the object lives after its last write; `None` for ever.
    fn expires_after(_facts: &RequestFacts) -> Option<Duration> {
        None
    }

    /// Whether stored objects may be compressed.
    const COMPRESSES: bool = false;

    /// The object's JSON in compressed form, if that differs. `kind`, `apiVersion` and metadata must stay as they
    /// are.
    fn compress(_json: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Converts an object to the version in which Kubernetes stores the kind; see [`EtcdEncoding::JsonIn`].
    fn convert_to_etcd(_object: &mut Tree) {}

    /// Reverts [`Strategy::convert_to_etcd`].
    fn convert_from_etcd(_object: &mut Tree) {}

    /// Reverts [`Strategy::compress`].
    fn decompress(json: &Bytes) -> Result<Bytes, InvalidObject> {
        Ok(json.clone())
    }
}

fn has_status<T: Strategy + ?Sized>() -> bool {
    T::SUBRESOURCES.iter().any(Subresource::is_status)
}

/// Facts of the request that the rules of a kind may use, as values.
#[derive(Debug, Clone)]
pub struct RequestFacts {
    pub now: Timestamp,
    pub user: Arc<User>,
    /// How long an event lives after its last write.
    pub event_ttl: Duration,
    /// Whether privileged containers are allowed (upstream: `--allow-privileged`).
    pub allow_privileged: bool,
}

/// The names of a kind's resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    pub plural: &'static str,
    pub singular: &'static str,
    pub short: &'static [&'static str],
    pub categories: &'static [&'static str],
}

/// Whether objects are in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// A selectable field: its label, and the paths of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldLabel {
    pub label: &'static str,
    /// The first path that has a value wins.
    pub paths: &'static [&'static [&'static str]],
    /// The value if no path has one.
    pub absent: &'static str,
    /// The label in the storage version, if it differs.
    pub stored_as: &'static str,
}

// === impl Names ===

impl Names {
    pub const fn new(plural: &'static str, singular: &'static str) -> Self {
        Self {
            plural,
            singular,
            short: &[],
            categories: &[],
        }
    }

    #[must_use]
    pub const fn short(self, short: &'static [&'static str]) -> Self {
        Self { short, ..self }
    }

    #[must_use]
    pub const fn categories(self, categories: &'static [&'static str]) -> Self {
        Self { categories, ..self }
    }
}

// === impl Field ===

impl FieldLabel {
    /// A field whose label is the same in all versions.
    pub const fn new(label: &'static str, paths: &'static [&'static [&'static str]]) -> Self {
        Self {
            label,
            paths,
            absent: "",
            stored_as: label,
        }
    }

    /// A field of a served version with another label in the storage version.
    pub const fn renamed(label: &'static str, stored_as: &'static str) -> Self {
        Self {
            stored_as,
            ..Self::new(label, &[])
        }
    }

    /// The same field with a default value.
    pub const fn or(self, absent: &'static str) -> Self {
        Self { absent, ..self }
    }

    /// A boolean field, which is false if absent.
    pub const fn boolean(label: &'static str, paths: &'static [&'static [&'static str]]) -> Self {
        Self::new(label, paths).or("false")
    }
}

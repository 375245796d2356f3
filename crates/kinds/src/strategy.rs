//! What the author of a kind writes: [`Strategy`], and the plain words it is made of.
//!
//! Everything but the names and [`Strategy::validate`] has a default, so a small kind is a small file.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;

use setpoint_api::User;
use setpoint_schema::{Empty, Tree};

use crate::at::At;
use crate::columns::{self, Column};
use crate::kind::Problem;
use crate::parts;

/// The rules of one kind, on its document.
///
/// Every document is pruned to the shape and in normal form: see [`crate::normal`]. On a create the order is: defaults,
/// [`Strategy::prepare_create`], [`Strategy::validate`]. On an update: defaults, [`Strategy::prepare_update`] (or
/// [`Strategy::prepare_status`], or [`Strategy::prepare_part`]), then the validations. Metadata is prepared and
/// validated by the server before each of them.
pub trait Strategy: Debug + Send + Sync + 'static {
    /// Group, version and kind.
    const KIND: (&'static str, &'static str, &'static str);
    const NAMES: Names;
    const SCOPE: Scope = Scope::Namespaced;
    const COLUMNS: &'static [Column] = &[columns::NAME, columns::AGE];
    /// The selectable fields besides name and namespace.
    const FIELDS: &'static [Field] = &[];
    const SUBRESOURCES: &'static [Subresource] = &[];
    const RULES: Rules = Rules::DEFAULT;

    /// Fills in what the caller left out. Runs on every document that comes in, and must not look at anything else.
    fn default_fields(_object: &mut Tree) {}

    /// Fills in what depends on the facts of the request. Runs behind [`Strategy::default_fields`], on documents that
    /// come from outside.
    fn default_by_facts(_object: &mut Tree, _facts: &Facts) {}

    /// Sets what only the server may set on a new object, and drops what the caller may not set: a status that has an
    /// address of its own.
    fn prepare_create(object: &mut Tree, _facts: &Facts) {
        if has_status::<Self>() {
            parts::drop(object, "status");
        }
    }

    /// Completes a new object that is fine.
    fn finish_create(_object: &mut Tree) {}

    /// Keeps what an update of the main resource may not change, the status above all.
    fn prepare_update(object: &mut Tree, old: &Tree, _facts: &Facts) {
        if has_status::<Self>() {
            parts::keep(object, old, "status");
        }
    }

    /// Keeps everything but the status and the metadata.
    fn prepare_status(object: &mut Tree, old: &Tree, _facts: &Facts) {
        parts::keep_all_but(object, old, &["metadata", "status"]);
    }

    /// Keeps everything but what the named subresource is for; see [`Part::Slice`].
    fn prepare_part(_object: &mut Tree, _name: &str, _old: &Tree, _facts: &Facts) {}

    /// Reports what is wrong with the object by itself.
    fn validate(object: &At<'_>);

    /// Reports what is wrong by itself with an object that follows another: by default what is wrong with a new one.
    fn validate_again(object: &At<'_>, _old: &At<'_>) {
        Self::validate(object);
    }

    /// Reports what may not follow from what was there before.
    fn validate_update(_object: &At<'_>, _old: &At<'_>) {}

    /// Reports what may not follow in an update of the status.
    fn validate_status(_object: &At<'_>, _old: &At<'_>) {}

    /// Reports what may not follow in an update of the named subresource: by default what may not follow in any.
    fn validate_part(object: &At<'_>, _name: &str, old: &At<'_>) {
        Self::validate_again(object, old);
        Self::validate_update(object, old);
    }

    /// What a caller should know about a document that is fine.
    fn warnings(_object: &At<'_>, _old: Option<&At<'_>>) -> Vec<String> {
        Vec::new()
    }

    /// Whether an update changes what the object asks for, so that its generation counts one up. Only asked where
    /// [`Rules::tracks_generation`] says so.
    fn asks_for_else(object: &Tree, old: &Tree) -> bool {
        parts::differ_besides(object, old, &["metadata", "status"])
    }

    /// How many seconds the object stays after it was asked to go; `None` if the kind knows no grace.
    fn graceful_deletion(_object: &Tree, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// What changes in the object, besides its metadata, once its deletion has begun.
    fn begin_deletion(_object: &mut Tree) {}

    /// Whether something other than finalizers in the metadata still holds an object that is being deleted.
    fn is_held(_object: &Tree) -> bool {
        false
    }

    /// How long the object lives after its last write; `None` is for ever.
    fn expires_after(_facts: &Facts) -> Option<Duration> {
        None
    }

    /// Whether documents at rest may be packed.
    const PACKS: bool = false;

    /// A document's JSON as it is kept, if that is not as it is. The head and the metadata stay as they are.
    fn pack(_json: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Brings back what was packed.
    fn unpack(json: &Bytes) -> Result<Bytes, Problem> {
        Ok(json.clone())
    }
}

fn has_status<T: Strategy + ?Sized>() -> bool {
    T::SUBRESOURCES
        .iter()
        .any(|subresource| subresource.part == Part::Status)
}

/// What the rules of a kind may know besides the object: the facts of the request, as values.
#[derive(Debug, Clone)]
pub struct Facts {
    pub now: Timestamp,
    pub user: Arc<User>,
    /// How long an event lives after its last write.
    pub event_ttl: Duration,
}

/// What a kind is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    pub plural: &'static str,
    pub singular: &'static str,
    pub short: &'static [&'static str],
    pub categories: &'static [&'static str],
}

/// Whether objects live in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// What a name of this kind may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// Lower-case words joined by dots, at most 253 bytes.
    Subdomain,
    /// One lower-case word, at most 63 bytes.
    Label,
    /// Anything that can stand in a URL.
    PathSegment,
    /// One lower-case word that begins with a letter, at most 63 bytes.
    Service,
    /// An IP address, in its canonical text.
    Address,
    /// The kind has rules of its own, in [`Strategy::validate`].
    Own,
}

/// How the generic verbs treat a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    pub verbs: &'static [&'static str],
    pub name: NameRule,
    /// Whether an update of an object that is not there creates it.
    pub create_on_update: bool,
    /// Whether an update may leave the resource version out.
    pub unconditional_update: bool,
    /// Whether a deletion that leaves nothing still answers with the object.
    pub returns_deleted: bool,
    /// Whether `metadata.generation` counts the changes of what the object asks for.
    pub tracks_generation: bool,
    /// Whether the owner of dependents may be deleted before them; events have no dependents at all.
    pub collects_dependents: bool,
    /// Whether dependents stay when their owner goes, where the request does not say.
    pub orphans_dependents: bool,
    /// What to tell the caller of a deletion that does not say what is to become of dependents; empty for nothing.
    pub deletion_warning: &'static str,
    /// What a write of the object itself never changes besides the status, so that it never owns it either.
    pub resets: &'static [&'static [&'static str]],
    /// What an update of the status never changes, so that it never owns it either.
    pub status_resets: &'static [&'static [&'static str]],
    /// Whether documents are kept. A document that is not is answered: a review.
    pub stored: bool,
    /// For a document that is carried out rather than kept: the resource and the action that do so, on the object that
    /// has the document's name.
    pub carried_out_by: Option<(&'static str, &'static str)>,
    /// What every caller is told about a kind that nobody should use any more; empty for all others.
    pub deprecated: &'static str,
    /// The version that discovery names as stored, where it is not the one that is. Kubernetes keeps a new version's
    /// objects in the version before it for a release.
    pub said_stored: &'static str,
    /// Where Kubernetes keeps the objects, as messages show it, where that is not simply the resource's name.
    pub kept_at: &'static str,
    /// What becomes of an empty list where a field always shows.
    pub empty: Empty,
    /// What refusals call the resource of an object that is not there, where it is another word; empty for all others.
    pub called_absent: &'static str,
    /// Whether the metadata of a new object is looked at only once its own rules have found nothing.
    pub metadata_last: bool,
    /// Whether finalizers may be words without a domain that nobody knows.
    pub plain_finalizers: bool,
    /// What a caller is told who selects by a field that cannot be selected by; `{label}` or `{quoted}` is its name.
    pub unselectable: &'static str,
    /// Annotations that stand for a field inside Kubernetes, so that the metadata by itself does not have them.
    pub inner_annotations: &'static [&'static str],
}

/// A selectable field: its label, and where in the document its value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub label: &'static str,
    /// The first path that has a value wins.
    pub paths: &'static [&'static [&'static str]],
    /// What the field is where no path has a value.
    pub absent: &'static str,
    /// What the stored version calls it, where that is another word.
    pub stored_as: &'static str,
}

/// A part of an object with an address of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subresource {
    pub name: &'static str,
    pub part: Part,
    pub verbs: &'static [&'static str],
    /// Group, version and kind of what it takes; empty for the object itself.
    pub kind: (&'static str, &'static str, &'static str),
}

/// What a subresource is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Status,
    /// Some other part of the object, read and updated as the whole object.
    Slice,
    /// Something done to the object, by a document of another kind.
    Action,
    /// How many replicas the object asks for, as a document of the kind Scale.
    Scale,
    /// A question about the object that is answered rather than stored, such as a request for a token.
    Answer,
    /// A stream to where the object runs.
    Connect,
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

// === impl Rules ===

impl Rules {
    pub const DEFAULT: Self = Self {
        verbs: &[
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
        name: NameRule::Subdomain,
        create_on_update: false,
        unconditional_update: true,
        returns_deleted: false,
        tracks_generation: false,
        collects_dependents: true,
        orphans_dependents: false,
        deletion_warning: "",
        resets: &[],
        status_resets: &[&["spec"]],
        stored: true,
        carried_out_by: None,
        deprecated: "",
        said_stored: "",
        kept_at: "",
        empty: Empty::Null,
        called_absent: "",
        metadata_last: false,
        plain_finalizers: false,
        unselectable: "field label not supported: {label}",
        inner_annotations: &[],
    };

    /// For documents that are answered rather than kept.
    pub const ANSWERED: Self = Self {
        verbs: &["create"],
        stored: false,
        ..Self::DEFAULT
    };
}

// === impl Field ===

impl Field {
    /// A field whose label is where it stands.
    pub const fn new(label: &'static str, paths: &'static [&'static [&'static str]]) -> Self {
        Self {
            label,
            paths,
            absent: "",
            stored_as: label,
        }
    }

    /// A field of a version that is not stored, which calls it otherwise.
    pub const fn renamed(label: &'static str, stored_as: &'static str) -> Self {
        Self {
            stored_as,
            ..Self::new(label, &[])
        }
    }

    /// A field with a value where it is absent.
    pub const fn or(self, absent: &'static str) -> Self {
        Self { absent, ..self }
    }

    /// A boolean, which counts as false where it is absent.
    pub const fn boolean(label: &'static str, paths: &'static [&'static [&'static str]]) -> Self {
        Self::new(label, paths).or("false")
    }
}

// === impl Subresource ===

impl Subresource {
    pub const STATUS: Self = Self {
        name: "status",
        part: Part::Status,
        verbs: &["get", "patch", "update"],
        kind: ("", "", ""),
    };

    pub const SCALE: Self = Self {
        name: "scale",
        part: Part::Scale,
        verbs: &["get", "patch", "update"],
        kind: ("autoscaling", "v1", "Scale"),
    };

    /// A question about the object, by creating a document of this group, version and kind.
    pub const fn answer(name: &'static str, kind: (&'static str, &'static str, &'static str)) -> Self {
        Self {
            part: Part::Answer,
            ..Self::action(name, kind)
        }
    }

    /// A stream to where the object runs; `kind` names its options.
    pub const fn connect(
        name: &'static str,
        verbs: &'static [&'static str],
        kind: (&'static str, &'static str, &'static str),
    ) -> Self {
        Self {
            name,
            part: Part::Connect,
            verbs,
            kind,
        }
    }

    /// A part of the object that is only ever updated.
    pub const fn slice(name: &'static str, verbs: &'static [&'static str]) -> Self {
        Self {
            name,
            part: Part::Slice,
            verbs,
            kind: ("", "", ""),
        }
    }

    /// Something done to the object by creating a document of this group, version and kind.
    pub const fn action(name: &'static str, kind: (&'static str, &'static str, &'static str)) -> Self {
        Self {
            name,
            part: Part::Action,
            verbs: &["create"],
            kind,
        }
    }
}

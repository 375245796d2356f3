//! Options of the verbs, parsed and typed (upstream: `metav1.GetOptions` and its siblings).

use std::time::Duration;

use crate::selector::{FieldSelector, LabelSelector};
use crate::version::ResourceVersion;

#[derive(Debug, Clone, Default)]
pub struct GetOptions {
    /// Absent: the most recent. Zero: any version that is cached. Otherwise: not older than this.
    pub resource_version: Option<ResourceVersion>,
}

/// Selectors, paging and resource version of a list.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    pub limit: Option<u64>,
    pub continue_token: Option<String>,
    /// Absent: the most recent. Zero: any version that is cached. Otherwise as `resource_version_match` specifies.
    pub resource_version: Option<ResourceVersion>,
    pub resource_version_match: Option<ResourceVersionMatch>,
}

/// How the requested resource version is to be applied (`resourceVersionMatch`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    NotOlderThan,
    Exact,
}

#[derive(Debug, Clone, Default)]
pub struct WatchOptions {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    /// Absent or zero: start with the current state. Otherwise: the changes after this version.
    pub resource_version: Option<ResourceVersion>,
    pub resource_version_match: Option<ResourceVersionMatch>,
    pub allow_watch_bookmarks: bool,
    /// Whether to send the current state first and mark its end with a bookmark (`sendInitialEvents`).
    pub send_initial_events: Option<bool>,
    pub timeout: Option<Duration>,
}

#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    pub dry_run: bool,
    /// The field manager of the written fields.
    pub field_manager: Option<String>,
    pub field_validation: FieldValidation,
    /// Server-side apply: take over fields owned by other managers.
    pub force: bool,
    /// Whether the server has derived the field manager from the user agent. Admission shows only what the caller set.
    pub is_derived_manager: bool,
    /// Whether the caller has set the field validation.
    pub is_explicit_validation: bool,
    /// How long the request may take (`timeout`); absent: as long as the server allows.
    pub timeout: Option<Duration>,
}

/// Handling of unknown and duplicate fields (`fieldValidation`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    Json,
    Merge,
    StrategicMerge,
    Apply,
}

#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: Option<DeletionPropagation>,
    /// The older form in which the caller has set the policy. Admission shows it instead of the policy.
    pub orphan_dependents: Option<bool>,
    pub uid: Option<String>,
    /// Precondition: the object's current resource version. The caller's text, since a text that is no number is a
    /// mismatch rather than a bad request.
    pub resource_version: Option<String>,
    /// Deletes the object only if it cannot be decoded, without admission or finalizers
    /// (`ignoreStoreReadErrorWithClusterBreakingPotential`).
    pub ignore_store_read_error: bool,
    pub dry_run: bool,
    /// How long the request may take (`timeout`); absent: as long as the server allows.
    pub timeout: Option<Duration>,
}

/// What the garbage collector does with the dependents (`propagationPolicy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionPropagation {
    Orphan,
    Background,
    Foreground,
}

impl DeleteOptions {
    /// With the UID as precondition: a later object of the same name is not deleted.
    pub fn with_uid(uid: &str) -> Self {
        Self {
            uid: Some(uid.to_owned()),
            ..Self::default()
        }
    }
}

impl WriteOptions {
    /// The field manager; empty if the caller did not set it.
    pub fn manager(&self) -> &str {
        self.field_manager.as_deref().unwrap_or_default()
    }
}

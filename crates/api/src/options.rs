//! What a request may ask besides its verb, parsed and typed.

use std::time::Duration;

use crate::selector::{FieldSelector, LabelSelector};
use crate::version::ResourceVersion;

#[derive(Debug, Clone, Default)]
pub struct GetOptions {
    /// Absent: the newest. Zero: whatever is at hand. Otherwise: not older than this.
    pub resource_version: Option<ResourceVersion>,
}

/// Which objects, and how many of them from where.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    pub limit: Option<u64>,
    pub continue_token: Option<String>,
    /// Absent: the newest. Zero: whatever is at hand. Otherwise as `version_match` says.
    pub resource_version: Option<ResourceVersion>,
    pub version_match: Option<VersionMatch>,
}

/// How close a list must come to the resource version asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionMatch {
    NotOlderThan,
    Exact,
}

#[derive(Debug, Clone, Default)]
pub struct WatchOptions {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    /// Absent or zero: start with what is there. Otherwise: what happened after this.
    pub resource_version: Option<ResourceVersion>,
    pub version_match: Option<VersionMatch>,
    pub bookmarks: bool,
    /// Whether to send the state first and mark its end.
    pub send_initial_events: Option<bool>,
    pub timeout: Option<Duration>,
}

#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    pub dry_run: bool,
    /// Who manages the fields that are written.
    pub field_manager: Option<String>,
    pub field_validation: FieldValidation,
    /// Server-side apply: take fields from other managers.
    pub force: bool,
}

/// What to do about unknown and duplicate fields.
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
    pub propagation: Option<Propagation>,
    pub uid: Option<String>,
    /// The version that must still be there, as the caller wrote it: what is no number never was a version.
    pub resource_version: Option<String>,
    /// Only an object that cannot be read may go, and it goes without a look at it.
    pub unreadable_only: bool,
    pub dry_run: bool,
}

/// What becomes of the objects that the deleted one owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Orphan,
    Background,
    Foreground,
}

impl DeleteOptions {
    /// For this very object: one of the same name that came after it stays.
    pub fn of_uid(uid: &str) -> Self {
        Self {
            uid: Some(uid.to_owned()),
            ..Self::default()
        }
    }
}

impl WriteOptions {
    /// The manager of what is written: empty if the caller does not say.
    pub fn manager(&self) -> &str {
        self.field_manager.as_deref().unwrap_or_default()
    }
}

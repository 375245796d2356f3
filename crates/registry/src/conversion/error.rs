//! [`ConversionError`]: why an object could not be converted, and the statuses that Kubernetes returns for it.

use std::fmt;
use std::sync::Arc;

use setpoint_api::status::{Details, StatusCause};
use setpoint_api::{ApiVerb, GroupResource, Key, ResourceVersion, Status, Stored};
use setpoint_strategy::KindInfo;

use crate::error::plain;
use crate::key;

/// How many objects the status of a list names.
const MAX_LISTED_ERRORS: usize = 100;

/// The error of a conversion, in the words of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConversionError(Arc<str>);

impl ConversionError {
    pub(crate) fn new(message: impl AsRef<str>) -> Self {
        Self(message.as_ref().into())
    }

    /// The status of a write, whose object cannot be converted to the storage version.
    pub(crate) fn into_write_error(self) -> Status {
        plain(500, &*self.0)
    }

    /// The status of an update of a stored object that cannot be converted.
    pub(crate) fn into_update_error(self, version: ResourceVersion) -> Status {
        plain(500, self.undecodable(version))
    }

    /// The status of a read or a delete of a stored object that cannot be converted.
    pub(crate) fn into_read_error(self, info: &KindInfo, object: &Stored) -> Status {
        let path = key::upstream_prefix(info);
        let path = path.strip_prefix(key::ROOT).unwrap_or(&path);
        let message = self.corrupt(&format!("/{path}"), object.key(), object.resource_version());
        Status::internal(message)
    }

    fn undecodable(&self, version: ResourceVersion) -> String {
        format!("object not decodable revision={version}: {self}")
    }

    fn corrupt(&self, prefix: &str, key: &Key, version: ResourceVersion) -> String {
        format!(
            "StorageError: corrupt object, Code: 7, Key: {prefix}{key}, ResourceVersion: 0, AdditionalErrorMsg: {}",
            self.undecodable(version)
        )
    }
}

impl fmt::Display for ConversionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The errors of the objects of a list.
#[derive(Debug, Default)]
pub(super) struct ListErrors {
    causes: Vec<StatusCause>,
}

impl ListErrors {
    /// Adds the error of an object. Returns whether there are as many as the status names.
    pub(super) fn add(&mut self, info: &KindInfo, object: &Stored, error: &ConversionError) -> bool {
        let path = key::upstream_prefix(info);
        self.causes.push(StatusCause {
            reason: "UnexpectedServerResponse".to_owned(),
            message: error.corrupt(&path, object.key(), object.resource_version()),
            field: format!("{path}{}", object.key()),
        });
        self.causes.len() >= MAX_LISTED_ERRORS
    }

    /// The status of the list, if there are errors.
    pub(super) fn into_status(mut self, resource: &GroupResource) -> Result<(), Status> {
        let Some(first) = self.causes.first() else {
            return Ok(());
        };
        let mut message = format!(
            "failed to read one or more {resource} from the storage: {}",
            first.message
        );
        let more = self.causes.len() - 1;
        if more > 0 {
            message = format!("{message} (and {more} more)");
        }
        if self.causes.len() >= MAX_LISTED_ERRORS {
            self.causes.push(StatusCause {
                reason: "FieldValueTooMany".to_owned(),
                message: "too many errors, the list is truncated".to_owned(),
                field: String::new(),
            });
        }
        Err(Status {
            reason: "StorageReadError".to_owned(),
            details: Some(Details {
                name: ApiVerb::List.as_str().to_owned(),
                group: resource.group.to_string(),
                kind: resource.resource.to_string(),
                causes: self.causes,
                ..Details::default()
            }),
            ..plain(500, message)
        })
    }
}

//! The constructors of [`Status`], one for each kind of error (upstream: `apimachinery/pkg/api/errors`).

use std::collections::HashSet;

use super::{Details, Status, StatusCause};
use crate::field::FieldError;
use crate::gvk::{GroupResource, Gvk};
use crate::version::ResourceVersion;

impl Status {
    /// A success without an object in the response, such as a completed deletion.
    pub fn success(resource: &GroupResource, name: &str, uid: &str) -> Self {
        let mut status = Self::ok().with_details(resource, name);
        status.details.get_or_insert_default().uid = uid.to_owned();
        status
    }

    /// A success without details.
    pub fn ok() -> Self {
        Self {
            status: "Success".to_owned(),
            code: 200,
            ..Self::default()
        }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, "BadRequest", message)
    }

    pub fn unauthorized() -> Self {
        Self::failure(401, "Unauthorized", "Unauthorized")
    }

    /// The request on the resource is not allowed; `why` follows `is forbidden:`.
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = match name {
            "" => format!("{resource} is forbidden: {why}"),
            name => format!("{resource} {name:?} is forbidden: {why}"),
        };
        Self::failure(403, "Forbidden", message).with_details(resource, name)
    }

    /// The user is not authorized for a non-resource path.
    pub fn forbidden_path(user: &str, verb: &str, path: &str) -> Self {
        let mut status = Self::failure(
            403,
            "Forbidden",
            format!("forbidden: User {user:?} cannot {verb} path {path:?}"),
        );
        status.details = Some(Details::default());
        status
    }

    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::failure(404, "NotFound", format!("{resource} {name:?} not found")).with_details(resource, name)
    }

    /// The server does not serve the requested resource.
    pub fn no_such_resource() -> Self {
        let mut status = Self::failure(
            404,
            "NotFound",
            "the server could not find the requested resource",
        );
        status.details = Some(Details::default());
        status
    }

    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let mut status = Self::failure(405, "MethodNotAllowed", message);
        status.details = Some(Details::default());
        status
    }

    pub fn not_acceptable(accepted: &str) -> Self {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::failure(406, "NotAcceptable", message)
    }

    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::failure(415, "UnsupportedMediaType", message)
    }

    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::failure(
            409,
            "AlreadyExists",
            format!("{resource} {name:?} already exists"),
        )
        .with_details(resource, name)
    }

    /// The write conflicts with the current state of the object; `why` is the reason.
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::failure(409, "Conflict", message).with_details(resource, name)
    }

    /// The object was modified since the caller read it.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// The object violates validation rules of its kind.
    pub fn invalid(gvk: &Gvk, name: &str, errors: &[FieldError]) -> Self {
        // An error that two rules report is listed once.
        let mut seen = HashSet::with_capacity(errors.len());
        let (causes, lines): (Vec<StatusCause>, Vec<String>) = errors
            .iter()
            .map(|error| (error, error.to_string()))
            .filter(|(_, line)| seen.insert(line.clone()))
            .map(|(error, line)| (error.into(), line))
            .unzip();
        let listed = match lines.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let subject = match gvk.group.as_str() {
            "" => gvk.kind.to_string(),
            group => format!("{}.{group}", gvk.kind),
        };
        let message = format!("{subject} {name:?} is invalid: {listed}");
        let mut status = Self::failure(422, "Invalid", message).with_kind_details(gvk, name);
        status.details.get_or_insert_default().causes = causes;
        status
    }

    /// The requested resource version has been compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, "Expired", message)
    }

    /// A watch from a resource version that has been compacted.
    pub fn too_old_resource_version(requested: ResourceVersion, oldest: ResourceVersion) -> Self {
        Self::expired(format!("too old resource version: {requested} ({oldest})"))
    }

    /// A read at a resource version that does not exist yet.
    pub fn too_large_resource_version(requested: ResourceVersion, current: ResourceVersion) -> Self {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        let mut status = Self::failure(504, "Timeout", message);
        status.details = Some(Details {
            causes: vec![StatusCause {
                reason: "ResourceVersionTooLarge".to_owned(),
                message: "Too large resource version".to_owned(),
                field: String::new(),
            }],
            retry_after_seconds: 1,
            ..Details::default()
        });
        status
    }

    pub fn request_entity_too_large(limit: usize) -> Self {
        Self::failure(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    pub fn too_many_requests(retry_after_seconds: u32) -> Self {
        let mut status = Self::failure(
            429,
            "TooManyRequests",
            "Too many requests, please try again later.",
        );
        status.details = Some(Details {
            retry_after_seconds,
            ..Details::default()
        });
        status
    }

    /// An internal error of the server.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let mut status = Self::failure(
            500,
            "InternalError",
            format!("Internal error occurred: {message}"),
        );
        status.details = Some(Details {
            causes: vec![StatusCause {
                message: message.to_string(),
                ..StatusCause::default()
            }],
            ..Details::default()
        });
        status
    }

    /// The server cannot handle the request at present.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, "ServiceUnavailable", message)
    }

    /// The request did not complete in time.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self::failure(504, "Timeout", message)
    }

    /// The same status with one more cause.
    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: &str) -> Self {
        let cause = StatusCause {
            reason: reason.to_owned(),
            message: message.to_owned(),
            ..StatusCause::default()
        };
        self.details.get_or_insert_default().causes.push(cause);
        self
    }
}

//! The constructors of [`Status`], one for each fact.

use super::{Details, Status, StatusCause};
use crate::field::FieldError;
use crate::gvk::{GroupResource, Gvk};
use crate::version::ResourceVersion;

impl Status {
    /// A deletion that left nothing to show, and other plain successes.
    pub fn success(resource: &GroupResource, name: &str, uid: &str) -> Self {
        let mut status = Self::done().about(resource, name);
        status.details.get_or_insert_default().uid = uid.to_owned();
        status
    }

    /// It went well; there is nothing more to say.
    pub fn done() -> Self {
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

    /// The caller may not do this to the resource; `why` is the sentence behind `is forbidden:`.
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = match name {
            "" => format!("{resource} is forbidden: {why}"),
            name => format!("{resource} {name:?} is forbidden: {why}"),
        };
        Self::failure(403, "Forbidden", message).about(resource, name)
    }

    /// The caller may not use a path that is no resource.
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
        Self::failure(404, "NotFound", format!("{resource} {name:?} not found")).about(resource, name)
    }

    /// No such resource is served here.
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
        .about(resource, name)
    }

    /// The write cannot be applied to what is there now; `why` says what is in its way.
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::failure(409, "Conflict", message).about(resource, name)
    }

    /// The object was changed since the caller read it.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// The document breaks the rules of its kind.
    pub fn invalid(gvk: &Gvk, name: &str, errors: &[FieldError]) -> Self {
        // What two rules have found is told once.
        let mut lines: Vec<String> = Vec::with_capacity(errors.len());
        let mut causes: Vec<StatusCause> = Vec::with_capacity(errors.len());
        for error in errors {
            let line = error.to_string();
            if !lines.contains(&line) {
                lines.push(line);
                causes.push(error.into());
            }
        }
        let listed = match lines.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let subject = match gvk.group.as_str() {
            "" => gvk.kind.to_string(),
            group => format!("{}.{group}", gvk.kind),
        };
        let message = format!("{subject} {name:?} is invalid: {listed}");
        let mut status = Self::failure(422, "Invalid", message).about_kind(gvk, name);
        status.details.get_or_insert_default().causes = causes;
        status
    }

    /// The revision asked for is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, "Expired", message)
    }

    /// A watch from a revision that is no longer kept.
    pub fn too_old(asked: ResourceVersion, oldest: ResourceVersion) -> Self {
        Self::expired(format!("too old resource version: {asked} ({oldest})"))
    }

    /// A read at a revision that has not happened yet.
    pub fn too_large_resource_version(asked: ResourceVersion, current: ResourceVersion) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
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

    pub fn too_large(limit: usize) -> Self {
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

    /// Something broke on this side.
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

    /// The server cannot do it now, and says why.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, "ServiceUnavailable", message)
    }

    /// The request did not finish in time.
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

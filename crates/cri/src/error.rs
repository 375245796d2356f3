//! Errors of CRI calls as errors of the runtime interface.

use setpoint_container_runtime::{Error, ErrorKind};

use setpoint_grpc::{Code, Status};

/// Prefixes of pull errors by which runtimes report a reason to the kubelet (cri-api `errors.go`).
const PULL_REASONS: &[(&str, ErrorKind)] = &[
    ("RegistryUnavailable", ErrorKind::RegistryUnavailable),
    ("SignatureValidationFailed", ErrorKind::SignatureValidation),
];

/// The error of a call. `kind` is that of errors without a more general reason, such as the operation's own.
pub(crate) fn from_status(status: &Status, kind: ErrorKind) -> Error {
    let kind = match status.code {
        Code::NOT_FOUND if kind != ErrorKind::ImagePull => ErrorKind::NotFound,
        Code::UNAVAILABLE if status.message.starts_with("connect to ") => ErrorKind::Unavailable,
        Code::UNAVAILABLE if kind != ErrorKind::ImagePull => ErrorKind::Unavailable,
        Code::DEADLINE_EXCEEDED => ErrorKind::DeadlineExceeded,
        Code::UNIMPLEMENTED => ErrorKind::Unimplemented,
        _ => kind,
    };
    Error::new(kind, status.text())
}

/// The error of a pull.
pub(crate) fn from_pull_status(status: &Status) -> Error {
    for (prefix, kind) in PULL_REASONS {
        if status.message.starts_with(prefix) {
            return Error::new(*kind, status.message.clone());
        }
    }
    if status.code == Code::INVALID_ARGUMENT {
        return Error::new(ErrorKind::InvalidImageName, status.text());
    }
    from_status(status, ErrorKind::ImagePull)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: Code, message: &str, kind: ErrorKind) {
        let error = from_pull_status(&Status::new(code, message));
        assert_eq!(error.kind, kind, "{error}");
    }

    #[test]
    fn pull_errors_keep_the_reason_that_the_runtime_reports() {
        check(Code::NOT_FOUND, "no such image", ErrorKind::ImagePull);
        check(
            Code::UNKNOWN,
            "RegistryUnavailable: timeout",
            ErrorKind::RegistryUnavailable,
        );
        check(
            Code::UNKNOWN,
            "SignatureValidationFailed: x",
            ErrorKind::SignatureValidation,
        );
        check(
            Code::UNAVAILABLE,
            "connect to /s: no such file",
            ErrorKind::Unavailable,
        );
        check(
            Code::INVALID_ARGUMENT,
            "invalid reference format",
            ErrorKind::InvalidImageName,
        );
    }

    #[test]
    fn an_absent_container_is_not_found() {
        let status = Status::new(Code::NOT_FOUND, "gone");
        assert_eq!(
            from_status(&status, ErrorKind::StartContainer).kind,
            ErrorKind::NotFound
        );
    }
}

//! Failures of calls as errors of the store.

use setpoint_grpc::{Code, Status};
use setpoint_store::{Error, RemoteFailure};

/// The error of a write. A request that etcd has rejected was not executed; one without a response may have been, and so
/// may one that used up the quota: etcd applies it, raises the alarm, and returns the error (upstream: `quotaApplierV3`).
pub(crate) fn of_write(status: &Status) -> Error {
    let failure = match status.code {
        _ if status.unsent => RemoteFailure::Unavailable,
        Code::RESOURCE_EXHAUSTED if status.message.contains("space exceeded") => RemoteFailure::Unknown,
        // The limit of the member's gRPC server, which is above that of requests.
        Code::RESOURCE_EXHAUSTED if status.message.contains("larger than max") => RemoteFailure::Rejected,
        Code::RESOURCE_EXHAUSTED => RemoteFailure::Unavailable,
        Code::UNAVAILABLE if status.message == "etcdserver: no leader" => RemoteFailure::Unavailable,
        code if is_rejection(code) => RemoteFailure::Rejected,
        _ => RemoteFailure::Unknown,
    };
    error(failure, status)
}

/// The error of a read, which changes nothing.
pub(crate) fn of_read(status: &Status) -> Error {
    error(RemoteFailure::Unavailable, status)
}

/// Whether etcd has rejected a call before it was executed.
fn is_rejection(code: Code) -> bool {
    const PERMISSION_DENIED: Code = Code(7);
    [
        Code::INVALID_ARGUMENT,
        Code::NOT_FOUND,
        PERMISSION_DENIED,
        Code::FAILED_PRECONDITION,
        Code::OUT_OF_RANGE,
        Code::UNIMPLEMENTED,
        Code::UNAUTHENTICATED,
    ]
    .contains(&code)
}

fn error(failure: RemoteFailure, status: &Status) -> Error {
    Error::Remote {
        failure,
        message: text(status),
    }
}

/// The text as Go's etcd client returns it: etcd's own errors without the code.
pub(crate) fn text(status: &Status) -> String {
    let is_plain = status.message.starts_with("etcdserver: ") || status.code == Code::DEADLINE_EXCEEDED;
    match is_plain {
        true => status.message.clone(),
        false => status.text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: Code, message: &str, expected: RemoteFailure, text: &str) {
        let error = of_write(&Status::new(code, message));
        assert!(matches!(&error, Error::Remote { failure, .. } if *failure == expected));
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn only_what_etcd_rejected_was_certainly_not_executed() {
        let timeout = "etcdserver: request timed out";
        check(Code::UNAVAILABLE, timeout, RemoteFailure::Unknown, timeout);
        let changed = "etcdserver: leader changed";
        check(Code::UNAVAILABLE, changed, RemoteFailure::Unknown, changed);
        let no_leader = "etcdserver: no leader";
        check(
            Code::UNAVAILABLE,
            no_leader,
            RemoteFailure::Unavailable,
            no_leader,
        );
        let full = "etcdserver: mvcc: database space exceeded";
        check(Code::RESOURCE_EXHAUSTED, full, RemoteFailure::Unknown, full);
        let busy = "etcdserver: too many requests";
        check(Code::RESOURCE_EXHAUSTED, busy, RemoteFailure::Unavailable, busy);
        let large = "etcdserver: request is too large";
        check(Code::INVALID_ARGUMENT, large, RemoteFailure::Rejected, large);
        check(
            Code::RESOURCE_EXHAUSTED,
            "grpc: received message larger than max (3000000 vs. 2097152)",
            RemoteFailure::Rejected,
            "rpc error: code = ResourceExhausted desc = grpc: received message larger than max (3000000 vs. 2097152)",
        );
        let late = "context deadline exceeded";
        check(Code::DEADLINE_EXCEEDED, late, RemoteFailure::Unknown, late);
        let text = "rpc error: code = Unavailable desc = broken";
        check(Code::UNAVAILABLE, "broken", RemoteFailure::Unknown, text);
    }
}

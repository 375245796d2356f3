//! Panic recovery: a request that panics returns a 500; other requests are not affected.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use futures_util::FutureExt;
use setpoint_api::Status;

use crate::request::options::StatusError;

/// Runs the request. This is unwind-safe: state shared between requests is in atomics or in locks without poisoning. The
/// future of a request is large, and is passed by reference: by value it would be stored twice.
pub(crate) async fn guard<T>(
    request: Pin<&mut impl Future<Output = Result<T, StatusError>>>,
) -> Result<T, StatusError> {
    match AssertUnwindSafe(request).catch_unwind().await {
        Ok(result) => result,
        Err(cause) => {
            let reason = cause.downcast_ref::<&str>().copied().map(str::to_owned);
            let reason = reason
                .or_else(|| cause.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            tracing::error!(reason, "request handler panicked");
            let message = "This request caused apiserver to panic. Look in the logs for details.";
            Err(Box::new(Status::internal(message)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_internal_error() {
        let result: Result<(), StatusError> = guard(pin!(async { panic!("broken promise") })).await;
        assert_eq!(result.unwrap_err().code, 500);
    }
}

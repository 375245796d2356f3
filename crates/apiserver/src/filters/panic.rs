//! A request that panics fails by itself: its caller gets an error, everyone else is served on.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use setpoint_api::Status;

use crate::request::options::Refused;

/// Runs the request. What it shared with others is only behind locks that panics do not poison, or atomics.
pub(crate) async fn guard<T>(request: impl Future<Output = Result<T, Refused>>) -> Result<T, Refused> {
    match AssertUnwindSafe(request).catch_unwind().await {
        Ok(answer) => answer,
        Err(cause) => {
            let reason = cause.downcast_ref::<&str>().copied().map(str::to_owned);
            let reason = reason
                .or_else(|| cause.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            tracing::error!(reason, "a request panicked");
            let told = "This request caused apiserver to panic. Look in the logs for details.";
            Err(Box::new(Status::internal(told)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_internal_error() {
        let answer: Result<(), Refused> = guard(async { panic!("broken promise") }).await;
        assert_eq!(answer.unwrap_err().code, 500);
    }
}

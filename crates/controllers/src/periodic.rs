//! Doing something again and again, for what no event tells of.

use std::future::Future;
use std::time::Duration;

use setpoint_api::Clock;
use tokio_util::sync::CancellationToken;

/// Acts at once and then each time the period has passed, until stopped. An act that runs is finished.
pub(crate) async fn every<F>(
    period: Duration,
    clock: &dyn Clock,
    stop: &CancellationToken,
    mut act: impl FnMut() -> F,
) where
    F: Future<Output = ()>,
{
    while !stop.is_cancelled() {
        act().await;
        tokio::select! {
            () = stop.cancelled() => {}
            () = clock.sleep(period) => {}
        }
    }
}

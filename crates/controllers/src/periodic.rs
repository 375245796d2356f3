//! Periodic work, for what no event reports.

use std::future::Future;
use std::time::Duration;

use setpoint_api::Clock;
use tokio_util::sync::CancellationToken;

/// Runs `act` at once and then once per period, until stopped. A running `act` is completed.
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

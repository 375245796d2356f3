//! The resident memory of a process that has started.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::Clock;

/// By then informers have listed their objects, and components that elect a leader have one.
const SETTLED_AFTER: Duration = Duration::from_secs(10);

/// Releases the pages of the program that only the start needed, once the process has settled. It runs beside the
/// components and never resolves.
pub(crate) async fn release_start_pages(clock: Arc<dyn Clock>) -> Infallible {
    clock.sleep(SETTLED_AFTER).await;
    match setpoint_program_pages::release() {
        Ok(bytes) => tracing::debug!("released {bytes} bytes of the program file from memory"),
        Err(error) => tracing::debug!("cannot release pages of the program file: {error}"),
    }
    std::future::pending().await
}

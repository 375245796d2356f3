//! The resident memory of a process that has started.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::Clock;

/// The times after the start at which pages are released, in seconds. At the first, informers have listed their objects, and
/// components that elect a leader have one; at the second, what is repeated every ten seconds has run for the first time.
const RELEASED_AFTER: [u64; 2] = [10, 30];

/// Releases the pages of the program that only the start needed, once the process has settled. It runs beside the
/// components and never resolves.
pub(crate) async fn release_start_pages(clock: Arc<dyn Clock>) -> Infallible {
    let mut slept = 0;
    for seconds in RELEASED_AFTER {
        clock.sleep(Duration::from_secs(seconds - slept)).await;
        slept = seconds;
        match setpoint_program_pages::release() {
            Ok(bytes) => tracing::debug!("released {bytes} bytes of the program file from memory"),
            Err(error) => tracing::debug!("cannot release pages of the program file: {error}"),
        }
    }
    std::future::pending().await
}

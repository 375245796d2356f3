//! [`off_worker`]: long computations off the threads that serve everyone.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Runs a computation that takes milliseconds or more. Its thread gives up its role as a worker of the runtime, which
/// goes on with another thread, so that other tasks do not wait. The switch costs some microseconds.
pub fn off_worker<T>(compute: impl FnOnce() -> T) -> T {
    match has_workers() {
        true => block_in_place(compute),
        false => compute(),
    }
}

/// Whether the runtime has workers that can be replaced; that of a test may have one thread.
pub fn has_workers() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

//! Execution of large requests: off the threads that serve everyone, and few at a time.
//!
//! Decoding, merging and validating an object of a megabyte takes tens of milliseconds in which its thread does nothing
//! else. A large request therefore gives its worker thread up: the runtime goes on with another thread, so that small
//! requests, TLS handshakes and health checks do not wait. Small requests run where they are.

use std::future::Future;
use std::num::NonZero;
use std::thread::available_parallelism;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::block_in_place;

use setpoint_api::off_worker::has_workers;
use setpoint_api::{Request, Verb};

/// A body or a stored object of more bytes is large.
pub(crate) const LARGE_BYTES: usize = 128 * 1024;

/// A list that looks at more objects is large.
pub(crate) const LARGE_OBJECTS: usize = 10_000;

/// The slots of large requests: half as many as the machine has cores.
#[derive(Debug)]
pub(crate) struct LargeRequests {
    slots: Semaphore,
}

impl Default for LargeRequests {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        Self {
            slots: Semaphore::new(cores.div_ceil(2)),
        }
    }
}

impl LargeRequests {
    /// Runs a large request once a slot is free. It must not be run by a request that has a slot already.
    pub(crate) async fn run<T>(&self, request: impl Future<Output = T>) -> T {
        let slot = self.slots.acquire().await;
        let _slot = slot.expect("the semaphore is never closed");
        match has_workers() {
            true => block_in_place(|| Handle::current().block_on(request)),
            false => request.await,
        }
    }
}

/// Whether the body of a request is large.
pub(crate) fn has_large_body(request: &Request) -> bool {
    match &request.verb {
        Verb::Create(payload, _) | Verb::Update(payload, _) | Verb::Patch(_, payload, _) => {
            payload.bytes.len() > LARGE_BYTES
        }
        Verb::Get(_) | Verb::List(_) | Verb::Watch(_) | Verb::Delete(_) | Verb::DeleteCollection(..) => false,
    }
}

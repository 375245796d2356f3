//! Execution of large requests: off the threads that serve everyone, and few at a time.
//!
//! Decoding, merging and validating an object of a megabyte takes tens of milliseconds in which its thread does nothing
//! else. A large request therefore gives its worker thread up: the runtime goes on with another thread, so that small
//! requests, TLS handshakes and health checks do not wait. Small requests run where they are.

use std::future::Future;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
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
    slots: Arc<Semaphore>,
}

/// The slot of a large request.
#[derive(Debug)]
struct Slot {
    slots: Arc<Semaphore>,
    /// Absent while the request waits for a webhook.
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

tokio::task_local! {
    /// The slot of the request that is running.
    static SLOT: Arc<Slot>;
}

impl Default for LargeRequests {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        Self {
            slots: Arc::new(Semaphore::new(cores.div_ceil(2))),
        }
    }
}

impl LargeRequests {
    /// Runs a large request once a slot is free. It must not be run by a request that has a slot already.
    pub(crate) async fn run<T>(&self, request: impl Future<Output = T>) -> T {
        let slot = Arc::new(Slot {
            slots: self.slots.clone(),
            permit: Mutex::new(Some(acquire(&self.slots).await)),
        });
        let request = SLOT.scope(slot, request);
        match has_workers() {
            true => block_in_place(|| Handle::current().block_on(request)),
            false => request.await,
        }
    }
}

/// Awaits something outside the server, such as a webhook. A large request releases its slot meanwhile, so that a webhook
/// that does not respond holds up none of the others.
pub(crate) async fn outside_slot<T>(call: impl Future<Output = T>) -> T {
    let Ok(slot) = SLOT.try_with(Arc::clone) else {
        return call.await;
    };
    drop(slot.permit.lock().take());
    let output = call.await;
    let permit = acquire(&slot.slots).await;
    *slot.permit.lock() = Some(permit);
    output
}

async fn acquire(slots: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    let permit = slots.clone().acquire_owned().await;
    permit.expect("the semaphore is never closed")
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

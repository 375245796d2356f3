//! Execution of large requests: off the threads that serve everyone, and few at a time.
//!
//! Decoding, merging and validating an object of a megabyte takes tens of milliseconds in which its thread does nothing
//! else. A large request therefore gives its worker thread up: the runtime goes on with another thread, so that small
//! requests, TLS handshakes and health checks do not wait. Small requests run where they are.

use std::future::{Future, poll_fn};
use std::num::NonZero;
use std::pin::{Pin, pin};
use std::task::ready;
use std::thread::available_parallelism;

use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
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
    /// Runs a large request, whenever it computes, in a slot and off the worker threads. While it waits, for a webhook or
    /// for its commit, it holds neither a slot nor a thread. It must not be run by a request that has a slot already.
    pub(crate) async fn run<T>(&self, request: impl Future<Output = T>) -> T {
        let mut request = pin!(request);
        let mut slot: Option<SlotFuture<'_>> = None;
        poll_fn(|context| {
            let pending = slot.get_or_insert_with(|| Box::pin(self.slots.acquire()));
            let acquired = ready!(pending.as_mut().poll(context));
            let _slot = acquired.expect("the semaphore is never closed");
            slot = None;
            match has_workers() {
                true => block_in_place(|| request.as_mut().poll(context)),
                false => request.as_mut().poll(context),
            }
        })
        .await
    }
}

/// The pending slot of a large request.
type SlotFuture<'a> = Pin<Box<dyn Future<Output = Result<SemaphorePermit<'a>, AcquireError>> + Send + 'a>>;

/// Whether the body of a request is large.
pub(crate) fn has_large_body(request: &Request) -> bool {
    match &request.verb {
        Verb::Create(payload, _) | Verb::Update(payload, _) | Verb::Patch(_, payload, _) => {
            payload.bytes.len() > LARGE_BYTES
        }
        Verb::Get(_) | Verb::List(_) | Verb::Watch(_) | Verb::Delete(_) | Verb::DeleteCollection(..) => false,
    }
}

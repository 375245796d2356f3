//! Writes the events that recorders take down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Event as Object;
use setpoint_api::{Clock, Status};
use setpoint_client::{Client, Handle};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Event;
use super::correlate::{Correlator, Write};

/// The one who writes. Nothing is written unless it runs.
#[derive(Debug)]
pub struct Sink {
    queue: mpsc::Receiver<Event>,
    /// How many are in the queue or in hand, for those who wait until all are written.
    pending: Arc<AtomicU64>,
    client: Client,
    clock: Arc<dyn Clock>,
    correlator: Correlator,
}

/// How often a server that cannot be reached is tried, and how long between two tries.
const TRIES: u32 = 12;
const RETRY_AFTER: Duration = Duration::from_secs(10);

impl Sink {
    pub(crate) fn new(
        queue: mpsc::Receiver<Event>,
        pending: Arc<AtomicU64>,
        client: Client,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let correlator = Correlator::new();
        Self {
            queue,
            pending,
            client,
            clock,
            correlator,
        }
    }

    /// Writes events one after the other until stopped, or until there is no recorder left.
    pub async fn run(mut self, stop: CancellationToken) {
        let work = async {
            while let Some(event) = self.queue.recv().await {
                self.write(&event).await;
                self.pending.fetch_sub(1, Ordering::AcqRel);
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = work => {}
        }
    }

    async fn write(&mut self, event: &Event) {
        let written = match self.correlator.observe(event, self.clock.now()) {
            Write::Nothing => Ok(()),
            Write::Create(object) => self.create(&object).await,
            Write::Update(object) => self.update(event, object).await,
        };
        if let Err(status) = written {
            tracing::debug!(%status, reason = event.reason, "the server does not take the event");
        }
    }

    async fn create(&self, object: &Object) -> Result<(), Status> {
        let events = self.events(object);
        until_reached(&*self.clock, || events.create(object))
            .await
            .map(drop)
    }

    /// Counts the event up; if it has gone meanwhile, as events do, it is written anew.
    async fn update(&mut self, event: &Event, object: Object) -> Result<(), Status> {
        let events = self.events(&object);
        match until_reached(&*self.clock, || events.update(&object)).await {
            Err(status) if status.is_not_found() => {
                let object = self.correlator.renamed(event, object, self.clock.now());
                self.create(&object).await
            }
            outcome => outcome.map(drop),
        }
    }

    fn events(&self, object: &Object) -> Handle<Object> {
        self.client
            .namespaced(object.metadata.namespace.as_deref().unwrap_or_default())
    }
}

/// Tries until the server has an answer. An answer that is no is taken for one.
pub(super) async fn until_reached<T, F>(clock: &dyn Clock, attempt: impl Fn() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    let mut wait = RETRY_AFTER.mul_f64(rand::random());
    for _ in 1..TRIES {
        match attempt().await {
            Err(status) if status.code == 503 => clock.sleep(wait).await,
            outcome => return outcome,
        }
        wait = RETRY_AFTER;
    }
    attempt().await
}

//! [`Sink`]: writes recorded events to the API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Event as Object;
use setpoint_api::{Clock, Status};
use setpoint_client::{Api, Client};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Event;
use super::correlate::{Correlator, Write};

/// Writes the events of a recorder. It must be run for any event to be written.
#[derive(Debug)]
pub struct Sink {
    queue: mpsc::Receiver<Event>,
    /// The number of events that are queued or being written.
    pending: Arc<AtomicU64>,
    client: Client,
    clock: Arc<dyn Clock>,
    correlator: Correlator,
}

/// An event to be written.
#[derive(Debug)]
struct PendingEvent<'a> {
    event: &'a Event,
    object: Object,
    /// Whether it is created; else its count is updated.
    is_new: bool,
}

/// The number of events written concurrently. One at a time would not keep up with a scheduler that binds thousands of
/// pods a second, and most events would be dropped.
const BATCH_EVENTS: usize = 64;
/// The number of attempts to reach the server, and the time between two, as in client-go.
const MAX_TRIES: u32 = 12;
const RETRY_PERIOD: Duration = Duration::from_secs(10);

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

    /// Writes events until stopped, or until all recorders are dropped.
    pub async fn run(mut self, stop: CancellationToken) {
        let work = async {
            let mut batch = Vec::with_capacity(BATCH_EVENTS);
            while self.queue.recv_many(&mut batch, BATCH_EVENTS).await > 0 {
                self.write(&batch).await;
                self.pending.fetch_sub(batch.len() as u64, Ordering::AcqRel);
                batch.clear();
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = work => {}
        }
    }

    /// Writes a batch concurrently. An event whose object has expired on the server meanwhile is created again.
    async fn write(&mut self, events: &[Event]) {
        let pending = self.correlate(events);
        let expired = join_all(pending.iter().map(|one| self.send(one))).await;
        for (lost, _) in pending
            .into_iter()
            .zip(expired)
            .filter(|(_, is_expired)| *is_expired)
        {
            let object = self.correlator.renamed(lost.event, lost.object, self.clock.now());
            let is_new = true;
            self.send(&PendingEvent {
                object,
                is_new,
                ..lost
            })
            .await;
        }
    }

    /// The writes for a batch. Repeated events in a batch are written once, with their count.
    fn correlate<'a>(&mut self, events: &'a [Event]) -> Vec<PendingEvent<'a>> {
        let mut pending: Vec<PendingEvent<'a>> = Vec::with_capacity(events.len());
        for event in events {
            let (object, is_new) = match self.correlator.observe(event, self.clock.now()) {
                Write::Nothing => continue,
                Write::Create(object) => (object, true),
                Write::Update(object) => (object, false),
            };
            let is_same = |one: &&mut PendingEvent<'_>| one.object.metadata.name == object.metadata.name;
            match pending.iter_mut().find(is_same) {
                Some(same) => same.object = object,
                None => pending.push(PendingEvent {
                    event,
                    object,
                    is_new,
                }),
            }
        }
        pending
    }

    /// Writes one event; true if its count was to be updated but the event no longer exists.
    async fn send(
        &self,
        PendingEvent {
            event,
            object,
            is_new,
        }: &PendingEvent<'_>,
    ) -> bool {
        let events = self.events(event, object);
        let written = match is_new {
            true => retry_until_reached(&*self.clock, || events.create(object)).await,
            false => retry_until_reached(&*self.clock, || events.update(object)).await,
        };
        match written {
            Err(status) if !is_new && status.is_not_found() => return true,
            Err(status) => {
                tracing::debug!(%status, reason = event.reason, "the server rejected the event")
            }
            Ok(_) => {}
        }
        false
    }

    fn events(&self, event: &Event, object: &Object) -> Api<Object> {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        match &event.field_manager {
            Some(manager) => self.client.with_field_manager(manager).namespaced(namespace),
            None => self.client.namespaced(namespace),
        }
    }
}

/// Retries while the server is unreachable (503). Any other response, also an error, is returned.
pub(super) async fn retry_until_reached<T, F>(clock: &dyn Clock, attempt: impl Fn() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    let mut wait = RETRY_PERIOD.mul_f64(rand::random());
    for _ in 1..MAX_TRIES {
        match attempt().await {
            Err(status) if status.code == 503 => clock.sleep(wait).await,
            outcome => return outcome,
        }
        wait = RETRY_PERIOD;
    }
    attempt().await
}

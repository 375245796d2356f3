//! Writes the events that recorders take down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
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

/// An event on its way to the server.
#[derive(Debug)]
struct Pending<'a> {
    event: &'a Event,
    object: Object,
    /// Whether the server has none of it yet.
    is_new: bool,
}

/// So many are written at a time. One after the other they would not keep up with a scheduler that binds thousands of
/// pods a second, and most of them would find the queue full.
const AT_A_TIME: usize = 64;
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

    /// Writes events until stopped, or until there is no recorder left.
    pub async fn run(mut self, stop: CancellationToken) {
        let work = async {
            let mut taken = Vec::with_capacity(AT_A_TIME);
            while self.queue.recv_many(&mut taken, AT_A_TIME).await > 0 {
                self.write(&taken).await;
                self.pending.fetch_sub(taken.len() as u64, Ordering::AcqRel);
                taken.clear();
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = work => {}
        }
    }

    /// Writes these, all at once; what has gone meanwhile, as events do, is written anew.
    async fn write(&mut self, events: &[Event]) {
        let pending = self.correlate(events);
        let gone = join_all(pending.iter().map(|one| self.send(one))).await;
        for (lost, _) in pending.into_iter().zip(gone).filter(|(_, is_gone)| *is_gone) {
            let object = self.correlator.renamed(lost.event, lost.object, self.clock.now());
            let is_new = true;
            self.send(&Pending {
                object,
                is_new,
                ..lost
            })
            .await;
        }
    }

    /// What is to be written. What is said again before it is written is written once, with its count.
    fn correlate<'a>(&mut self, events: &'a [Event]) -> Vec<Pending<'a>> {
        let mut pending: Vec<Pending<'a>> = Vec::with_capacity(events.len());
        for event in events {
            let (object, is_new) = match self.correlator.observe(event, self.clock.now()) {
                Write::Nothing => continue,
                Write::Create(object) => (object, true),
                Write::Update(object) => (object, false),
            };
            let is_same = |one: &&mut Pending<'_>| one.object.metadata.name == object.metadata.name;
            match pending.iter_mut().find(is_same) {
                Some(same) => same.object = object,
                None => pending.push(Pending {
                    event,
                    object,
                    is_new,
                }),
            }
        }
        pending
    }

    /// Writes one event, and says whether it was to be counted up but is not there.
    async fn send(
        &self,
        Pending {
            event,
            object,
            is_new,
        }: &Pending<'_>,
    ) -> bool {
        let events = self.events(object);
        let written = match is_new {
            true => until_reached(&*self.clock, || events.create(object)).await,
            false => until_reached(&*self.clock, || events.update(object)).await,
        };
        match written {
            Err(status) if !is_new && status.is_not_found() => return true,
            Err(status) => {
                tracing::debug!(%status, reason = event.reason, "the server does not take the event")
            }
            Ok(_) => {}
        }
        false
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

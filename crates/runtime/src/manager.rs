//! What controllers are given, and the one who runs several of them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use setpoint_api::{Clock, GroupResource};
use setpoint_cache::{Cache, Caches};
use setpoint_client::{Client, Object};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::events::{self, Recorder, Sink};
use crate::freshness::Tracked;
use crate::lister::Lister;
use crate::metrics::Metrics;
use crate::reconcile::Error;

/// Everything a controller needs from outside. Cloning shares it all.
#[derive(Clone)]
pub struct Context {
    pub caches: Arc<dyn Caches>,
    /// Notes the writes of the reconcile that makes them.
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub events: Recorder,
    pub metrics: Arc<Metrics>,
}

/// Runs several parts until stopped; the first that fails stops the others.
pub struct Manager {
    context: Context,
    sink: Sink,
    parts: Vec<(&'static str, Part)>,
}

type Part = Box<dyn FnOnce(Context, CancellationToken) -> Running + Send>;
type Running = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

// === impl Context ===

impl Context {
    /// The context, and the sink that must be run for its events to be written.
    pub fn new(caches: Arc<dyn Caches>, client: Client, clock: Arc<dyn Clock>) -> (Self, Sink) {
        let tracked = Arc::new(Tracked::new(client.serve().clone()));
        let client = Client::new(tracked, client.user().clone());
        let (events, sink) = events::recorder(client.clone(), clock.clone());
        let context = Self {
            caches,
            client,
            clock,
            events,
            metrics: Arc::default(),
        };
        (context, sink)
    }

    /// The cache of a resource that the caller cannot do without.
    pub fn cache(&self, resource: &GroupResource) -> Result<Arc<Cache>, Error> {
        let cache = self.caches.cache(resource);
        cache.ok_or_else(|| Error::Unserved(resource.clone()))
    }

    /// Reads the cached objects of a type.
    pub fn lister<T: Object>(&self) -> Result<Lister<T>, Error> {
        self.cache(&T::resource().group_resource()).map(Lister::new)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

// === impl Manager ===

impl Manager {
    pub fn new(caches: Arc<dyn Caches>, client: Client, clock: Arc<dyn Clock>) -> Self {
        let (context, sink) = Context::new(caches, client, clock);
        let parts = Vec::new();
        Self { context, sink, parts }
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    /// One more part, started with the context when the manager runs.
    pub fn add<F>(
        &mut self,
        name: &'static str,
        start: impl FnOnce(Context, CancellationToken) -> F + Send + 'static,
    ) where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let part: Part = Box::new(move |context, stop| Box::pin(start(context, stop)));
        self.parts.push((name, part));
    }

    /// Runs all parts until stopped.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let stop = stop.child_token();
        // Whatever ends this, its children are told.
        let _guard = stop.clone().drop_guard();
        let mut running = JoinSet::new();
        let sink = self.sink.run(stop.clone());
        running.spawn(async move {
            sink.await;
            ("event recorder", Ok(()))
        });
        for (name, part) in self.parts {
            let part = part(self.context.clone(), stop.clone());
            running.spawn(async move { (name, part.await) });
        }
        let mut first = Ok(());
        while let Some(ended) = running.join_next().await {
            let ended = ended.map_err(|error| Error::Panicked(format!("a part: {error}")));
            if let Err(error) = ended.and_then(|(name, result)| named(name, result)) {
                stop.cancel();
                first = first.and(Err(error));
            }
        }
        first
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.parts.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

fn named(name: &str, result: Result<(), Error>) -> Result<(), Error> {
    if let Err(error) = &result {
        tracing::error!(part = name, %error, "a part failed");
    }
    result
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Reply, Request, Status, SystemClock, User};

    use super::*;

    struct Nothing;

    impl Caches for Nothing {
        fn cache(&self, _: &GroupResource) -> Option<Arc<Cache>> {
            None
        }
    }

    fn manager() -> Manager {
        let serve =
            |_: Request| -> Reply<'static> { Box::pin(async { Err(Status::unavailable("no server")) }) };
        let client = Client::new(Arc::new(serve), Arc::new(User::component("test")));
        Manager::new(Arc::new(Nothing), client, Arc::new(SystemClock::new()))
    }

    async fn until_stopped(_: Context, stop: CancellationToken) -> Result<(), Error> {
        stop.cancelled().await;
        Ok(())
    }

    #[tokio::test]
    async fn the_first_part_that_fails_stops_the_others() {
        let mut manager = manager();
        manager.add("patient", until_stopped);
        manager.add("broken", async |_, _| Err(Error::failed("out of order")));
        let error = manager.run(CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "out of order");
    }

    #[tokio::test]
    async fn a_part_that_panics_is_a_failure_too() {
        let mut manager = manager();
        manager.add("patient", until_stopped);
        manager.add("broken", async |_, _| panic!("a broken promise"));
        let error = manager.run(CancellationToken::new()).await.unwrap_err();
        assert!(error.to_string().ends_with("panicked"), "{error}");
    }

    #[tokio::test]
    async fn a_stop_ends_all_parts_and_is_no_failure() {
        let mut manager = manager();
        manager.add("one", until_stopped);
        manager.add("two", until_stopped);
        let stop = CancellationToken::new();
        stop.cancel();
        manager.run(stop).await.unwrap();
    }
}

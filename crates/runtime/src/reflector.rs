//! The reflector keeps a [`Cache`] like a resource of any server: it lists, then watches, for ever.
//!
//! What can go wrong with a watch, and what follows, is client-go's `tools/cache/reflector.go`:
//!
//! | the watch | next |
//! |---|---|
//! | ends | watch on from the last revision, no list |
//! | cannot be made: no connection, 429, 503 | wait, then watch on from the last revision |
//! | is refused or broken off with 410 | list at the last revision, or at the newest if that is gone, too |
//! | ends at once without an event, or fails in another way | wait, then list |
//!
//! Order is promised for each object only. An event that is older than what is known of its object is a repetition and told
//! to nobody, also after the object has gone. An event that is swallowed on the way without the watch breaking off leaves no trace: only another list brings
//! it to light, which [`Scope::relist`] asks for.

mod apply;
mod backoff;
mod events;
mod tell;

use std::fmt;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::options::{ListOptions, VersionMatch, WatchOptions};
use setpoint_api::selector::{FieldSelector, LabelSelector};
use setpoint_api::{Bookmark, Clock, Event, Gvr, List, ResourceVersion, Status, Stored, Watch};
use setpoint_cache::Cache;
use setpoint_client::{Client, Dynamic};
use tokio_util::sync::CancellationToken;

use crate::delta::Transform;
use apply::{Graves, Initial};
use backoff::Backoff;
use events::{Ready, next_event, ready_events};
use tell::Teller;

/// Which objects to keep, and how to get them.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Empty for the whole cluster.
    pub namespace: String,
    /// Only objects with such labels.
    pub labels: LabelSelector,
    /// Only objects with such fields.
    pub fields: FieldSelector,
    /// How to begin.
    pub start: Start,
    /// To list anew each time this has passed, whatever the watch says. A line that breaks is noticed without it; one
    /// that loses events and goes on is not. What differs is told like any other change.
    pub relist: Option<Duration>,
}

/// How to get what is there already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Start {
    /// By the watch itself, which sends it first. If the server cannot, by a list.
    #[default]
    Stream,
    /// By a list, page by page.
    List,
}

/// Keeps one cache like one resource.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let (client, clock) = (cluster.client("me"), std::sync::Arc::new(cluster.clock.clone()));
/// use k8s_openapi::api::core::v1::Namespace;
/// use setpoint_runtime::reflector::{Reflector, Scope};
/// use setpoint_runtime::{Cache, Object};
/// use std::sync::Arc;
/// use tokio_util::sync::CancellationToken;
///
/// let cache = Arc::new(Cache::new(Namespace::resource().group_resource()));
/// let reflector = Reflector::new(&client, Namespace::resource(), Scope::default(), cache.clone(), clock);
/// tokio::select! {
///     () = reflector.run(CancellationToken::new()) => {}
///     () = cache.synced() => {}
/// }
/// assert!(cache.snapshot().iter().any(|namespace| namespace.key().name() == "default"));
/// # }
/// ```
pub struct Reflector {
    resource: Dynamic,
    scope: Scope,
    cache: Arc<Cache>,
    clock: Arc<dyn Clock>,
    transform: Option<Transform>,
    graves: Mutex<Graves>,
    teller: Teller,
}

/// Where a reflector stands.
enum State {
    /// The cache is empty or may have missed something. The list to come must not be older than this; `None` asks for
    /// the newest.
    Listing(Option<ResourceVersion>),
    /// The cache is like the server was at this revision. What came after is to be watched.
    Behind(ResourceVersion),
    /// The cache follows.
    Watching(Following),
}

/// A watch that goes on, and the revision up to which the cache has it all.
struct Following {
    watch: Watch,
    at: ResourceVersion,
}

/// How a watch ended.
enum End {
    /// Cleanly, at this revision.
    Closed(ResourceVersion),
    /// At once, without telling anything.
    Useless,
    /// It goes on, but the time has come to look whether it tells everything.
    Doubted,
    Failed(Box<Status>),
}

/// A server ends a watch after a time between this and its double, so that not all end at once.
const MIN_WATCH: Duration = Duration::from_secs(300);
/// A watch that has not ended by now is taken for dead.
const WATCH_LIMIT: Duration = Duration::from_secs(630);
/// A server gives a request up after a minute. An answer that has not come by now never will.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);
/// A watch that ends sooner than this without an event is no watch.
const SHORT_WATCH_MILLIS: u64 = 1000;
const PAGE_OBJECTS: u64 = 500;
/// How often it is said that a streaming list has not ended yet.
const REPORT_AFTER: Duration = Duration::from_secs(10);

impl Reflector {
    /// The cache must be fed by nobody else.
    pub fn new(
        client: &Client,
        resource: Gvr,
        scope: Scope,
        cache: Arc<Cache>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let resource = client.dynamic(resource, &scope.namespace);
        Self {
            resource,
            scope,
            cache,
            clock,
            transform: None,
            graves: Mutex::default(),
            teller: Teller::default(),
        }
    }

    /// The same reflector, keeping objects as this function makes them. Key and resource version must stay.
    #[must_use]
    pub fn transforming(self, transform: Transform) -> Self {
        let transform = Some(transform);
        Self { transform, ..self }
    }

    /// Keeps the cache until stopped. Trouble is waited out.
    pub async fn run(self, stop: CancellationToken) {
        let work = async {
            let mut backoff = Backoff::new(self.clock.clone());
            let mut state = State::Listing(Some(ResourceVersion::ZERO));
            loop {
                state = self.step(state, &mut backoff).await;
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = work => {}
        }
    }

    async fn step(&self, state: State, backoff: &mut Backoff) -> State {
        match state {
            State::Listing(at) => self.list(at, backoff).await,
            State::Behind(at) => self.watch(at, backoff).await,
            State::Watching(following) => {
                let started = self.clock.millis();
                let end = self.follow(following, started).await;
                self.after(end, backoff).await
            }
        }
    }

    /// Fills the cache with what is there.
    async fn list(&self, at: Option<ResourceVersion>, backoff: &mut Backoff) -> State {
        if self.scope.start == Start::Stream {
            let streamed = tokio::select! {
                streamed = self.stream(at) => streamed,
                () = self.clock.sleep(WATCH_LIMIT) => Err(Status::timeout("the initial state never ended")),
            };
            match streamed {
                Ok(following) => return State::Watching(following),
                Err(status) if is_unreachable(&status) => {
                    return self.retry(&status, State::Listing(at), backoff).await;
                }
                Err(status) => tracing::debug!(%status, resource = %self.name(), "no streaming list"),
            }
        }
        match self.pages(at).await {
            Ok(list) => {
                let version = list.resource_version;
                self.fill(list.items, version).await;
                State::Behind(version)
            }
            // Whoever asks for the newest cannot be told that it is gone.
            Err(status) if at.is_some() && is_out_of_reach(&status) => State::Listing(None),
            Err(status) => self.retry(&status, State::Listing(at), backoff).await,
        }
    }

    /// All pages of a list. If the rest is gone before it is read, the whole at once.
    async fn pages(&self, at: Option<ResourceVersion>) -> Result<List, Status> {
        // Only the first list comes in pages: a later one can be served from the server's cache if it asks for all.
        let is_first = at == Some(ResourceVersion::ZERO);
        let mut options = self.list_options(at);
        options.limit = is_first.then_some(PAGE_OBJECTS);
        let mut whole = self.answered(self.resource.list(&options)).await?;
        while let Some(token) = whole.continue_token.take() {
            options.continue_token = Some(token);
            options.resource_version = None;
            match self.answered(self.resource.list(&options)).await {
                Ok(page) => {
                    whole.items.extend(page.items);
                    whole.continue_token = page.continue_token;
                }
                Err(status) if status.is_expired() => {
                    let options = self.list_options(at);
                    return self.answered(self.resource.list(&options)).await;
                }
                Err(status) => return Err(status),
            }
        }
        Ok(whole)
    }

    /// What is there and what comes after it in one stream.
    async fn stream(&self, at: Option<ResourceVersion>) -> Result<Following, Status> {
        let mut options = self.watch_options(at);
        options.send_initial_events = Some(true);
        options.version_match = Some(VersionMatch::NotOlderThan);
        let mut watch = self.answered(self.resource.watch(&options)).await?;
        let mut initial = Initial::default();
        let mut report = self.clock.sleep(REPORT_AFTER);
        loop {
            let event = tokio::select! {
                event = next_event(&mut watch) => event,
                () = &mut report => {
                    let (objects, resource) = (initial.len(), self.name());
                    tracing::info!(%resource, objects, "the initial state is still coming");
                    report = self.clock.sleep(REPORT_AFTER);
                    continue;
                }
            };
            match event {
                Some(Event::Added(object) | Event::Modified(object)) => initial.put(object),
                Some(Event::Deleted(last)) => initial.delete(last),
                Some(Event::Bookmark(Bookmark {
                    resource_version: at,
                    initial_events_end: true,
                })) => {
                    self.fill(initial.into_objects(), at).await;
                    return Ok(Following { watch, at });
                }
                Some(Event::Bookmark(_)) => {}
                Some(Event::Error(status)) => return Err(*status),
                None => return Err(Status::internal("the watch ended before the initial state did")),
            }
        }
    }

    async fn watch(&self, at: ResourceVersion, backoff: &mut Backoff) -> State {
        let options = self.watch_options(Some(at));
        match self.answered(self.resource.watch(&options)).await {
            Ok(watch) => State::Watching(Following { watch, at }),
            Err(status) => self.after(End::Failed(Box::new(status)), backoff).await,
        }
    }

    /// Applies what the watch tells until it ends.
    async fn follow(&self, following: Following, started: u64) -> End {
        let Following { mut watch, mut at } = following;
        let mut told = false;
        let mut deadline = self.clock.sleep(WATCH_LIMIT);
        let mut doubt = self.next_relist();
        loop {
            let Ready { events, is_last } = tokio::select! {
                ready = ready_events(&mut watch) => ready,
                () = &mut deadline => return End::Closed(at),
                () = &mut doubt => return End::Doubted,
            };
            told |= !events.is_empty();
            let events = self.transformed_events(events);
            let heard = apply::changes(&self.cache, &mut self.graves.lock(), events, at);
            let items = self.teller.items(&heard.changes, at, heard.at);
            at = heard.at;
            self.cache.apply(heard.changes, at);
            self.teller.tell(items).await;
            if let Some(status) = heard.error {
                return End::Failed(Box::new(status));
            }
            if is_last {
                let is_short = self.clock.millis().saturating_sub(started) < SHORT_WATCH_MILLIS;
                return if is_short && !told {
                    End::Useless
                } else {
                    End::Closed(at)
                };
            }
        }
    }

    /// What to do after a watch.
    async fn after(&self, end: End, backoff: &mut Backoff) -> State {
        let at = self.cache.version();
        match end {
            End::Closed(at) => State::Behind(at),
            End::Doubted => State::Listing(Some(at)),
            End::Failed(status) if status.is_expired() => State::Listing(Some(at)),
            End::Failed(status) if is_unreachable(&status) => {
                self.retry(&status, State::Behind(at), backoff).await
            }
            End::Failed(status) => self.retry(&status, State::Listing(Some(at)), backoff).await,
            End::Useless => {
                let status = Status::internal("the watch ended at once and told nothing");
                self.retry(&status, State::Listing(Some(at)), backoff).await
            }
        }
    }

    /// The answer, if it comes in time. One that does not is taken for that of a server that is not there.
    async fn answered<T>(&self, answer: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        tokio::select! {
            biased;
            answer = answer => answer,
            () = self.clock.sleep(ANSWER_LIMIT) => Err(Status::unavailable("no answer came")),
        }
    }

    async fn retry(&self, status: &Status, next: State, backoff: &mut Backoff) -> State {
        tracing::warn!(%status, resource = %self.name(), "cannot follow; trying again");
        backoff.wait().await;
        next
    }

    async fn fill(&self, objects: Vec<Arc<Stored>>, at: ResourceVersion) {
        let objects = self.transformed(objects);
        let items = self.teller.list(&objects, at);
        self.cache.replace(objects, at);
        self.graves.lock().clear(at);
        self.teller.tell(items).await;
    }

    fn transformed(&self, mut objects: Vec<Arc<Stored>>) -> Vec<Arc<Stored>> {
        if let Some(transform) = &self.transform {
            objects = objects.into_iter().map(|object| transform(object)).collect();
        }
        objects
    }

    fn transformed_events(&self, mut events: Vec<Event>) -> Vec<Event> {
        let Some(transform) = &self.transform else {
            return events;
        };
        for event in &mut events {
            if let Event::Added(object) | Event::Modified(object) | Event::Deleted(object) = event {
                *object = transform(object.clone());
            }
        }
        events
    }

    fn next_relist(&self) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        match self.scope.relist {
            Some(period) => self.clock.sleep(period),
            None => Box::pin(pending()),
        }
    }

    fn name(&self) -> setpoint_api::GroupResource {
        self.resource.resource().group_resource()
    }

    fn list_options(&self, at: Option<ResourceVersion>) -> ListOptions {
        ListOptions {
            labels: self.scope.labels.clone(),
            fields: self.scope.fields.clone(),
            resource_version: at,
            ..ListOptions::default()
        }
    }

    fn watch_options(&self, at: Option<ResourceVersion>) -> WatchOptions {
        WatchOptions {
            labels: self.scope.labels.clone(),
            fields: self.scope.fields.clone(),
            resource_version: at,
            bookmarks: true,
            timeout: Some(MIN_WATCH.mul_f64(1.0 + rand::random::<f64>())),
            ..WatchOptions::default()
        }
    }
}

impl fmt::Debug for Reflector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector")
            .field("resource", &self.resource)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

/// Whether the server could not be asked, or has too much to do.
fn is_unreachable(status: &Status) -> bool {
    matches!(status.code, 429 | 503)
}

/// Whether the revision asked for is gone, or has yet to come.
fn is_out_of_reach(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_expired()
        || causes
            .into_iter()
            .any(|cause| cause.reason == "ResourceVersionTooLarge")
}

#[cfg(test)]
mod tests;

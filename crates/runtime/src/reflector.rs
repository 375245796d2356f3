//! [`Reflector`]: keeps a [`Cache`] in sync with a resource of an API server by list and watch, until stopped.
//!
//! The reactions to a failed watch are those of client-go's `tools/cache/reflector.go`:
//!
//! | the watch | next |
//! |---|---|
//! | ends | watch from the last revision, no list |
//! | cannot be started: no connection, 429, 503 | back off, then watch from the last revision |
//! | fails with 410 (Expired) | list at the last revision, or at the newest if that is compacted, too |
//! | ends at once without an event, or fails in another way | back off, then list |
//!
//! Order is guaranteed for each object only. An event older than the cached object is a replay and is dropped, also after
//! the object was deleted (see [`apply::Tombstones`]). An event lost by the network without an error on the watch leaves no
//! trace: only another list finds the difference, which [`ReflectorOptions::relist`] requests.

mod apply;
mod backoff;
mod delta_sink;
mod events;

use std::fmt;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::options::{ListOptions, ResourceVersionMatch, WatchOptions};
use setpoint_api::selector::{FieldSelector, LabelSelector};
use setpoint_api::{Bookmark, Clock, Event, Gvr, List, ResourceVersion, Status, Stored, Watch};
use setpoint_cache::Cache;
use setpoint_client::{Client, DynamicApi};
use tokio_util::sync::CancellationToken;

use crate::delta::Transform;
use apply::{InitialState, Tombstones};
use backoff::Backoff;
use delta_sink::DeltaSink;
use events::{ReadyEvents, next_event, ready_events};

/// Options of a reflector: which objects it caches, and how it lists them.
#[derive(Debug, Clone, Default)]
pub struct ReflectorOptions {
    /// Empty for the whole cluster.
    pub namespace: String,
    /// Only objects with such labels.
    pub labels: LabelSelector,
    /// Only objects with such fields.
    pub fields: FieldSelector,
    /// How to get the initial list.
    pub initial_list: InitialList,
    /// Lists again each time this period has passed, even if the watch works. A broken connection is noticed without it; a
    /// connection that loses events is not. Differences are delivered like any other change.
    pub relist: Option<Duration>,
}

/// How to get the initial list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InitialList {
    /// As a streaming list (`sendInitialEvents`): the watch sends all objects first. Falls back to a paged list.
    #[default]
    WatchList,
    /// By a list in pages.
    Paged,
}

/// Keeps one cache in sync with one resource.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let (client, clock) = (cluster.client("me"), std::sync::Arc::new(cluster.clock.clone()));
/// use k8s_openapi::api::core::v1::Namespace;
/// use setpoint_runtime::reflector::{Reflector, ReflectorOptions};
/// use setpoint_runtime::{Cache, Object};
/// use std::sync::Arc;
/// use tokio_util::sync::CancellationToken;
///
/// let cache = Arc::new(Cache::new(Namespace::resource().group_resource()));
/// let options = ReflectorOptions::default();
/// let reflector = Reflector::new(&client, Namespace::resource(), options, cache.clone(), clock);
/// tokio::select! {
///     () = reflector.run(CancellationToken::new()) => {}
///     () = cache.synced() => {}
/// }
/// assert!(cache.snapshot().iter().any(|namespace| namespace.key().name() == "default"));
/// # }
/// ```
pub struct Reflector {
    resource: DynamicApi,
    options: ReflectorOptions,
    cache: Arc<Cache>,
    clock: Arc<dyn Clock>,
    transform: Option<Transform>,
    tombstones: Mutex<Tombstones>,
    delta_sink: DeltaSink,
}

/// The state of a reflector.
enum State {
    /// The cache is empty or may have missed changes. The next list must not be older than this revision; `None` requests
    /// the newest.
    Listing(Option<ResourceVersion>),
    /// The cache has the server's state at this revision. A watch from there is next.
    StartingWatch(ResourceVersion),
    /// The events of a watch are applied to the cache.
    Watching(OpenWatch),
}

/// An open watch, and the revision up to which its events are in the cache.
struct OpenWatch {
    watch: Watch,
    at: ResourceVersion,
}

/// How a watch ended.
enum WatchEnd {
    /// Closed by the server, at this revision.
    Closed(ResourceVersion),
    /// Closed at once, without an event.
    TooShort,
    /// It is still open, but [`ReflectorOptions::relist`] has passed.
    RelistDue,
    Failed(Box<Status>),
}

/// The requested watch timeout is between this and its double, so that not all watches end at once.
const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(300);
/// A watch that is still open after this time is considered dead.
const WATCH_TIMEOUT: Duration = Duration::from_secs(630);
/// An API server times a request out after a minute. A response that has not arrived by now never will.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(90);
/// A watch that ends sooner than this without an event counts as failed.
const SHORT_WATCH_MILLIS: u64 = 1000;
const PAGE_OBJECTS: u64 = 500;
/// How often the progress of a streaming list is logged.
const PROGRESS_LOG_PERIOD: Duration = Duration::from_secs(10);

impl Reflector {
    /// The reflector must be the only writer of the cache.
    pub fn new(
        client: &Client,
        resource: Gvr,
        options: ReflectorOptions,
        cache: Arc<Cache>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let resource = client.dynamic(resource, &options.namespace);
        Self {
            resource,
            options,
            cache,
            clock,
            transform: None,
            tombstones: Mutex::default(),
            delta_sink: DeltaSink::default(),
        }
    }

    /// The same reflector, which caches objects as this function returns them. Key and resource version must stay.
    #[must_use]
    pub fn with_transform(self, transform: Transform) -> Self {
        let transform = Some(transform);
        Self { transform, ..self }
    }

    /// Keeps the cache in sync until stopped. Failures are retried with backoff.
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
            State::StartingWatch(at) => self.watch(at, backoff).await,
            State::Watching(open) => {
                let started = self.clock.millis();
                let end = self.follow(open, started).await;
                self.next_state(end, backoff).await
            }
        }
    }

    /// Fills the cache from a list.
    async fn list(&self, at: Option<ResourceVersion>, backoff: &mut Backoff) -> State {
        if self.options.initial_list == InitialList::WatchList {
            let streamed = tokio::select! {
                streamed = self.watch_list(at) => streamed,
                () = self.clock.sleep(WATCH_TIMEOUT) => Err(Status::timeout("the streaming list did not end in time")),
            };
            match streamed {
                Ok(open) => return State::Watching(open),
                Err(status) if is_unreachable(&status) => {
                    return self.retry(&status, State::Listing(at), backoff).await;
                }
                Err(status) => {
                    tracing::debug!(%status, resource = %self.name(), "streaming list failed; falling back to a list")
                }
            }
        }
        match self.list_pages(at).await {
            Ok(list) => {
                let version = list.resource_version;
                self.replace(list.items, version).await;
                State::StartingWatch(version)
            }
            // A list at the newest revision cannot be expired.
            Err(status) if at.is_some() && is_unavailable_revision(&status) => State::Listing(None),
            Err(status) => self.retry(&status, State::Listing(at), backoff).await,
        }
    }

    /// All pages of a list. If the continue token expires, one full list instead.
    async fn list_pages(&self, at: Option<ResourceVersion>) -> Result<List, Status> {
        // Only the first list is paged: the server can serve an unpaged one from its watch cache.
        let is_first = at == Some(ResourceVersion::ZERO);
        let mut options = self.list_options(at);
        options.limit = is_first.then_some(PAGE_OBJECTS);
        let mut whole = self.with_timeout(self.resource.list(&options)).await?;
        while let Some(token) = whole.continue_token.take() {
            options.continue_token = Some(token);
            options.resource_version = None;
            match self.with_timeout(self.resource.list(&options)).await {
                Ok(page) => {
                    whole.items.extend(page.items);
                    whole.continue_token = page.continue_token;
                }
                Err(status) if status.is_expired() => {
                    let options = self.list_options(at);
                    return self.with_timeout(self.resource.list(&options)).await;
                }
                Err(status) => return Err(status),
            }
        }
        Ok(whole)
    }

    /// A streaming list: fills the cache from the initial events of a watch, which then continues.
    async fn watch_list(&self, at: Option<ResourceVersion>) -> Result<OpenWatch, Status> {
        let mut options = self.watch_options(at);
        options.send_initial_events = Some(true);
        options.resource_version_match = Some(ResourceVersionMatch::NotOlderThan);
        let mut watch = self.with_timeout(self.resource.watch(&options)).await?;
        let mut initial = InitialState::default();
        let mut report = self.clock.sleep(PROGRESS_LOG_PERIOD);
        loop {
            let event = tokio::select! {
                event = next_event(&mut watch) => event,
                () = &mut report => {
                    let (objects, resource) = (initial.len(), self.name());
                    tracing::info!(%resource, objects, "streaming list still in progress");
                    report = self.clock.sleep(PROGRESS_LOG_PERIOD);
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
                    self.replace(initial.into_objects(), at).await;
                    return Ok(OpenWatch { watch, at });
                }
                Some(Event::Bookmark(_)) => {}
                Some(Event::Error(status)) => return Err(*status),
                None => return Err(Status::internal("the watch ended before the initial events did")),
            }
        }
    }

    async fn watch(&self, at: ResourceVersion, backoff: &mut Backoff) -> State {
        let options = self.watch_options(Some(at));
        match self.with_timeout(self.resource.watch(&options)).await {
            Ok(watch) => State::Watching(OpenWatch { watch, at }),
            Err(status) => self.next_state(WatchEnd::Failed(Box::new(status)), backoff).await,
        }
    }

    /// Applies the events of a watch until it ends.
    async fn follow(&self, open: OpenWatch, started: u64) -> WatchEnd {
        let OpenWatch { mut watch, mut at } = open;
        let mut has_events = false;
        let mut deadline = self.clock.sleep(WATCH_TIMEOUT);
        let mut relist = self.next_relist();
        loop {
            let ReadyEvents { events, is_last } = tokio::select! {
                ready = ready_events(&mut watch) => ready,
                () = &mut deadline => return WatchEnd::Closed(at),
                () = &mut relist => return WatchEnd::RelistDue,
            };
            has_events |= !events.is_empty();
            let events = self.transformed_events(events);
            let batch = apply::changes(&self.cache, &mut self.tombstones.lock(), events, at);
            let items = self.delta_sink.items(&batch.changes, at, batch.at);
            at = batch.at;
            self.cache.apply(batch.changes, at);
            self.delta_sink.send(items).await;
            if let Some(status) = batch.error {
                return WatchEnd::Failed(Box::new(status));
            }
            if is_last {
                let is_short = self.clock.millis().saturating_sub(started) < SHORT_WATCH_MILLIS;
                return if is_short && !has_events {
                    WatchEnd::TooShort
                } else {
                    WatchEnd::Closed(at)
                };
            }
        }
    }

    /// The state after a watch has ended.
    async fn next_state(&self, end: WatchEnd, backoff: &mut Backoff) -> State {
        let at = self.cache.version();
        match end {
            WatchEnd::Closed(at) => State::StartingWatch(at),
            WatchEnd::RelistDue => State::Listing(Some(at)),
            WatchEnd::Failed(status) if status.is_expired() => State::Listing(Some(at)),
            WatchEnd::Failed(status) if is_unreachable(&status) => {
                self.retry(&status, State::StartingWatch(at), backoff).await
            }
            WatchEnd::Failed(status) => self.retry(&status, State::Listing(Some(at)), backoff).await,
            WatchEnd::TooShort => {
                let status = Status::internal("very short watch: closed without an event");
                self.retry(&status, State::Listing(Some(at)), backoff).await
            }
        }
    }

    /// The response, if it arrives in time; else an error as for an unreachable server.
    async fn with_timeout<T>(&self, response: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        tokio::select! {
            biased;
            response = response => response,
            () = self.clock.sleep(RESPONSE_TIMEOUT) => Err(Status::unavailable("no response in time")),
        }
    }

    async fn retry(&self, status: &Status, next: State, backoff: &mut Backoff) -> State {
        tracing::warn!(%status, resource = %self.name(), "list or watch failed; retrying");
        backoff.wait().await;
        next
    }

    async fn replace(&self, objects: Vec<Arc<Stored>>, at: ResourceVersion) {
        let objects = self.transformed(objects);
        let items = self.delta_sink.list(&objects, at);
        self.cache.replace(objects, at);
        self.tombstones.lock().clear(at);
        self.delta_sink.send(items).await;
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
        match self.options.relist {
            Some(period) => self.clock.sleep(period),
            None => Box::pin(pending()),
        }
    }

    fn name(&self) -> setpoint_api::GroupResource {
        self.resource.resource().group_resource()
    }

    fn list_options(&self, at: Option<ResourceVersion>) -> ListOptions {
        ListOptions {
            labels: self.options.labels.clone(),
            fields: self.options.fields.clone(),
            resource_version: at,
            ..ListOptions::default()
        }
    }

    fn watch_options(&self, at: Option<ResourceVersion>) -> WatchOptions {
        WatchOptions {
            labels: self.options.labels.clone(),
            fields: self.options.fields.clone(),
            resource_version: at,
            allow_watch_bookmarks: true,
            timeout: Some(MIN_WATCH_TIMEOUT.mul_f64(1.0 + rand::random::<f64>())),
            ..WatchOptions::default()
        }
    }
}

impl fmt::Debug for Reflector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector")
            .field("resource", &self.resource)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Whether the server is unreachable or overloaded.
fn is_unreachable(status: &Status) -> bool {
    matches!(status.code, 429 | 503)
}

/// Whether the requested revision is compacted, or newer than the server's.
fn is_unavailable_revision(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_expired()
        || causes
            .into_iter()
            .any(|cause| cause.reason == "ResourceVersionTooLarge")
}

#[cfg(test)]
mod tests;

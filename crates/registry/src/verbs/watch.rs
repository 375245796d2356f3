//! Watch: a stream of the changes of the objects of a resource.
//!
//! A watch is a cursor on the cache's window and two timers. It has no task of its own, and it buffers only the events
//! of the batch it is delivering.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use compact_str::CompactString;
use futures_core::Stream;

use setpoint_api::call::{Body, Watch};
use setpoint_api::field::Errors;
use setpoint_api::options::{ResourceVersionMatch, WatchOptions};
use setpoint_api::selector::selects;
use setpoint_api::{Bookmark, Change, Clock, Event, Key, ResourceVersion, Response, Status, Stored};
use setpoint_cache::{Subscription, TooOld};
use setpoint_schema::fields;
use setpoint_strategy::Kind;

use super::list::{check_decodable, check_fields, reject_options, wait_for, wait_until_fresh};
use crate::conversion::{self, UnconvertedChanges};
use crate::request_context::RequestContext;
use crate::{convert, stored_object};

const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// The last bookmark is sent this long before the watch ends by its timeout.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// The duration of a watch without `timeoutSeconds`: at least this, at most twice this.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

type Timer = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// Watches the objects that the options select.
pub(crate) async fn watch(
    context: &RequestContext<'_>,
    mut options: WatchOptions,
) -> Result<Response, Status> {
    check_options(&options)?;
    check_fields(context, &options.fields)?;
    options.fields = options
        .fields
        .rename_fields(|label| context.kind_info().stored_label(label));
    let subscribe = subscribe(context, &options).await?;
    let counter = OpenWatch::new(context);
    let conversion = conversion_of(context, &options);
    let converts = conversion.is_some();
    let mut stream = WatchStream::empty(context, options, counter);
    if converts {
        stream.unconverted = conversion;
        stream.scope.kind = context.kind.clone();
    }
    match subscribe {
        Ok(subscription) => stream.start(subscription),
        Err(too_old) => stream.expire(too_old),
    }
    let stream: Watch = Box::pin(stream);
    Ok(Response::new(Body::Watch(match converts {
        true => stream,
        false => convert::watch(context, stream),
    })))
}

/// The conversion of the changes before they are selected; none if they can be selected as they are stored.
fn conversion_of(context: &RequestContext<'_>, options: &WatchOptions) -> Option<UnconvertedChanges> {
    let selects_converted = conversion::selects_converted(context, &options.labels, &options.fields);
    let converts = selects_converted || context.kind.webhook_conversion().is_some();
    let conversions = &context.registry.conversions;
    converts.then(|| UnconvertedChanges::new(conversions, &context.kind, selects_converted))
}

/// Subscribes to the cache at the requested version. The inner error is delivered in the stream.
async fn subscribe(
    context: &RequestContext<'_>,
    options: &WatchOptions,
) -> Result<Result<Subscription, TooOld>, Status> {
    let cache = &context.resource.cache;
    let version = options
        .resource_version
        .filter(|version| *version != ResourceVersion::ZERO);
    match (options.send_initial_events, version) {
        (Some(true), Some(version)) => wait_for(context, version).await?,
        (_, None) => wait_until_fresh(context).await,
        _ => {}
    }
    if matches!(
        (options.send_initial_events, version),
        (Some(true), _) | (None, None)
    ) {
        check_decodable(context, &options.fields, None)?;
    }
    Ok(match (options.send_initial_events, version) {
        (Some(true), _) | (None, None) => cache.subscribe(None),
        (_, Some(version)) => cache.subscribe(Some(version)),
        (Some(false), None) => cache.subscribe(Some(cache.version())),
    })
}

fn check_options(options: &WatchOptions) -> Result<(), Status> {
    let errors = Errors::default();
    let at = errors.at(fields::RESOURCE_VERSION_MATCH);
    let requested = options.resource_version_match;
    if options.send_initial_events.is_some() {
        if requested != Some(ResourceVersionMatch::NotOlderThan) {
            at.forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
    } else if requested.is_some() {
        at.forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
    }
    reject_options(errors)
}

/// The event stream of a watch.
struct WatchStream {
    /// Absent once the stream has to end.
    subscription: Option<Subscription>,
    scope: Scope,
    /// Events of the batch that is being delivered.
    buffer: VecDeque<Event>,
    /// Changes that are converted before they become events.
    unconverted: Option<UnconvertedChanges>,
    /// The bookmark after the initial events.
    initial_end: Option<Bookmark>,
    bookmarks: Option<BookmarkTimer>,
    end: Timer,
    _counter: OpenWatch,
}

/// The objects that a watch selects.
struct Scope {
    kind: Arc<dyn Kind>,
    namespace: CompactString,
    options: WatchOptions,
}

/// The timer of bookmarks.
struct BookmarkTimer {
    clock: Arc<dyn Clock>,
    timer: Timer,
    /// The time left until the last bookmark, shortly before the end.
    left: Duration,
}

/// Counts the watch as open, for as long as it is.
struct OpenWatch(Arc<crate::metrics::Counters>);

// === impl WatchStream ===

impl WatchStream {
    /// Starts at the initial objects of the subscription, if it has some.
    fn start(&mut self, mut subscription: Subscription) {
        if let Some(initial) = subscription.initial.take() {
            let (objects, scope) = (initial.iter(), &self.scope);
            match &mut self.unconverted {
                None => {
                    let objects = objects.filter(|object| scope.contains(object));
                    self.buffer = objects.cloned().map(Event::Added).collect();
                }
                Some(unconverted) => {
                    let objects = objects.filter(|object| scope.may_contain(object.key()));
                    unconverted.push(objects.cloned().map(Change::Added));
                }
            }
            let options = &self.scope.options;
            if options.send_initial_events == Some(true) && options.allow_watch_bookmarks {
                self.initial_end = Some(Bookmark {
                    resource_version: initial.version,
                    initial_events_end: true,
                });
            }
        }
        self.subscription = Some(subscription);
    }

    /// A watch from a compacted version delivers the error and ends.
    fn expire(&mut self, too_old: TooOld) {
        let requested = self.scope.options.resource_version.unwrap_or_default();
        let status = Status::too_old_resource_version(requested, too_old.oldest);
        self.buffer.push_back(Event::Error(Box::new(status)));
    }

    /// Buffers the events of changes, or has them converted first.
    fn push(&mut self, changes: &[Change]) {
        let (changes, scope) = (changes.iter(), &self.scope);
        match &mut self.unconverted {
            None => self
                .buffer
                .extend(changes.filter_map(|change| scope.event(change))),
            Some(unconverted) => {
                let changes = changes.filter(|change| scope.may_contain(change.key()));
                unconverted.push(changes.cloned());
            }
        }
    }

    /// Buffers the events of changes that have been converted. Ready if the buffer may have changed.
    fn poll_conversion(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(unconverted) = self.unconverted.as_mut().filter(|changes| !changes.is_empty()) else {
            let initial_end = self.initial_end.take();
            self.buffer.extend(initial_end.map(Event::Bookmark));
            return Poll::Ready(());
        };
        let converted = std::task::ready!(unconverted.poll(cx));
        let events = converted.changes.iter();
        self.buffer
            .extend(events.filter_map(|change| self.scope.event(change)));
        if let Some(status) = converted.error {
            self.buffer.push_back(Event::Error(status));
            self.subscription = None;
        }
        Poll::Ready(())
    }

    /// Whether there are changes to be converted, or a bookmark that follows them.
    fn is_converting(&self) -> bool {
        let has_changes = self
            .unconverted
            .as_ref()
            .is_some_and(|changes| !changes.is_empty());
        has_changes || self.initial_end.is_some()
    }

    fn empty(context: &RequestContext<'_>, options: WatchOptions, counter: OpenWatch) -> Self {
        let clock = &context.registry.clock;
        let duration = options
            .timeout
            .unwrap_or_else(|| DEFAULT_TIMEOUT + DEFAULT_TIMEOUT.mul_f64(rand::random()));
        Self {
            subscription: None,
            buffer: VecDeque::new(),
            unconverted: None,
            initial_end: None,
            bookmarks: options
                .allow_watch_bookmarks
                .then(|| BookmarkTimer::new(clock.clone(), duration)),
            end: clock.sleep(duration),
            scope: Scope {
                kind: context.resource.kind.clone(),
                namespace: context.namespace().into(),
                options,
            },
            _counter: counter,
        }
    }

    /// Buffers the events of the next batch. Ready if the buffer may have changed.
    fn poll_changes(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(subscription) = &mut self.subscription else {
            return Poll::Pending;
        };
        match subscription.poll_changes(cx) {
            Poll::Ready(Ok(batch)) => {
                self.push(batch.changes());
                Poll::Ready(())
            }
            Poll::Ready(Err(too_old)) => {
                let requested = ResourceVersion(too_old.oldest.0.saturating_sub(1));
                let status = Status::too_old_resource_version(requested, too_old.oldest);
                self.buffer.push_back(Event::Error(Box::new(status)));
                self.subscription = None;
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Buffers a bookmark if one is due.
    fn poll_bookmark(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (Some(bookmarks), Some(subscription)) = (&mut self.bookmarks, &self.subscription) else {
            return Poll::Pending;
        };
        if bookmarks.timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        bookmarks.reset();
        if let Some(version) = subscription.progress() {
            self.buffer.push_back(Event::Bookmark(Bookmark {
                resource_version: version,
                initial_events_end: false,
            }));
        }
        Poll::Ready(())
    }
}

impl Stream for WatchStream {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let stream = self.get_mut();
        loop {
            if let Some(event) = stream.buffer.pop_front() {
                return Poll::Ready(Some(event));
            }
            if stream.subscription.is_none() {
                return Poll::Ready(None);
            }
            if stream.is_converting() {
                match stream.poll_conversion(cx) {
                    Poll::Ready(()) => continue,
                    Poll::Pending => return stream.end.as_mut().poll(cx).map(|()| None),
                }
            }
            if stream.poll_changes(cx).is_ready() || stream.poll_bookmark(cx).is_ready() {
                continue;
            }
            return stream.end.as_mut().poll(cx).map(|()| None);
        }
    }
}

// === impl Scope ===

impl Scope {
    fn contains(&self, object: &Stored) -> bool {
        let everywhere = self.namespace.is_empty();
        let options = &self.options;
        (everywhere || object.key().namespace() == self.namespace)
            && selects(&options.labels, &options.fields, object)
    }

    /// Whether an object may be selected, whatever version it is in.
    fn may_contain(&self, key: &Key) -> bool {
        let name = self.options.fields.exact_match("metadata.name");
        (self.namespace.is_empty() || key.namespace() == self.namespace)
            && name.is_none_or(|name| name == key.name())
    }

    /// The event of a change. An object that starts to be selected is ADDED, one that stops to be is DELETED.
    fn event(&self, change: &Change) -> Option<Event> {
        match change {
            Change::Added(new) => self.contains(new).then(|| Event::Added(new.clone())),
            Change::Modified { old, new } => match (self.contains(old), self.contains(new)) {
                (true, true) => Some(Event::Modified(new.clone())),
                (false, true) => Some(Event::Added(new.clone())),
                (true, false) => Some(Event::Deleted(self.last(old, new))),
                (false, false) => None,
            },
            Change::Deleted { old, last } => self.contains(old).then(|| Event::Deleted(last.clone())),
        }
    }

    /// The last state that was selected, with the version at which it no longer is.
    fn last(&self, old: &Arc<Stored>, new: &Stored) -> Arc<Stored> {
        let version = new.resource_version();
        stored_object::with_version(&*self.kind, old, version).unwrap_or_else(|_| old.clone())
    }
}

// === impl BookmarkTimer ===

impl BookmarkTimer {
    fn new(clock: Arc<dyn Clock>, duration: Duration) -> Self {
        let mut bookmarks = Self {
            timer: clock.sleep(Duration::ZERO),
            clock,
            left: duration.saturating_sub(BOOKMARK_BEFORE_END),
        };
        bookmarks.reset();
        bookmarks
    }

    /// Sets the timer for the next bookmark; after the last one it never fires.
    fn reset(&mut self) {
        let next = match self.left {
            Duration::ZERO => Duration::MAX,
            left => left.min(BOOKMARK_INTERVAL),
        };
        self.left = self.left.saturating_sub(next);
        self.timer = self.clock.sleep(next);
    }
}

// === impl OpenWatch ===

impl OpenWatch {
    fn new(context: &RequestContext<'_>) -> Self {
        let counters = context.registry.counters.clone();
        counters.open_watches.fetch_add(1, Relaxed);
        Self(counters)
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.open_watches.fetch_sub(1, Relaxed);
    }
}

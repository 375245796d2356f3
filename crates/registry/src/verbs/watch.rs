//! Watch: what happens to the objects of a resource, as it happens.
//!
//! A watch is a cursor on the cache's window and two timers. It has no task and no queue of its own beyond the events
//! of the batch it is telling.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use compact_str::CompactString;
use futures_core::Stream;

use setpoint_api::call::Body;
use setpoint_api::field::Errors;
use setpoint_api::options::{VersionMatch, WatchOptions};
use setpoint_api::selector::selects;
use setpoint_api::{Bookmark, Change, Clock, Event, ResourceVersion, Response, Status, Stored};
use setpoint_cache::{Subscription, TooOld};
use setpoint_kinds::Kind;

use super::list::{check_fields, refuse, wait_for, wait_until_fresh};
use crate::call::Call;
use crate::document;

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A watch that ends by its own timeout is told how far it came this long before.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// How long a watch lasts that does not say: at least this, at most twice this.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

type Timer = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// Watches the objects that the options select.
pub(crate) async fn watch(call: &Call<'_>, mut options: WatchOptions) -> Result<Response, Status> {
    check_options(&options)?;
    check_fields(call, &options.fields)?;
    options.fields = options.fields.renamed(|label| call.about().stored_label(label));
    let follow = follow(call, &options).await?;
    let counter = OpenWatch::new(call);
    let watching = match follow {
        Ok(subscription) => Watching::new(call, options, subscription, counter),
        Err(too_old) => Watching::refused(call, options, too_old, counter),
    };
    Ok(Response::of(Body::Watch(Box::pin(watching))))
}

/// Joins the cache where the caller wants to start; the inner error is for the caller's stream.
async fn follow(call: &Call<'_>, options: &WatchOptions) -> Result<Result<Subscription, TooOld>, Status> {
    let cache = &call.resource.cache;
    let version = options
        .resource_version
        .filter(|version| *version != ResourceVersion::ZERO);
    match (options.send_initial_events, version) {
        (Some(true), Some(version)) => wait_for(call, version).await?,
        (_, None) => wait_until_fresh(call).await,
        _ => {}
    }
    Ok(match (options.send_initial_events, version) {
        (Some(true), _) | (None, None) => cache.subscribe(None),
        (_, Some(version)) => cache.subscribe(Some(version)),
        (Some(false), None) => cache.subscribe(Some(cache.version())),
    })
}

fn check_options(options: &WatchOptions) -> Result<(), Status> {
    let errors = Errors::default();
    let at = errors.at("resourceVersionMatch");
    let asked = options.version_match;
    if options.send_initial_events.is_some() {
        if asked != Some(VersionMatch::NotOlderThan) {
            at.forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
    } else if asked.is_some() {
        at.forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
    }
    refuse(errors)
}

/// A watch in progress.
struct Watching {
    /// Absent once there is nothing more to follow.
    subscription: Option<Subscription>,
    scope: Scope,
    /// Events of the batch that is being told.
    ready: VecDeque<Event>,
    bookmarks: Option<Bookmarks>,
    end: Timer,
    _counter: OpenWatch,
}

/// Which objects a watch is about.
struct Scope {
    kind: Arc<dyn Kind>,
    namespace: CompactString,
    options: WatchOptions,
}

/// When to say how far the watch has come although nothing happens.
struct Bookmarks {
    clock: Arc<dyn Clock>,
    timer: Timer,
    /// What is left until the last one, shortly before the end.
    left: Duration,
}

/// Counts the watch as open, for as long as it is.
struct OpenWatch(Arc<crate::metrics::Counters>);

// === impl Watching ===

impl Watching {
    fn new(
        call: &Call<'_>,
        options: WatchOptions,
        mut subscription: Subscription,
        counter: OpenWatch,
    ) -> Self {
        let initial = subscription.initial.take();
        let mut watching = Self::empty(call, options, counter);
        if let Some(initial) = initial {
            let objects = initial.iter().filter(|object| watching.scope.holds(object));
            watching.ready = objects.cloned().map(Event::Added).collect();
            let options = &watching.scope.options;
            if options.send_initial_events == Some(true) && options.bookmarks {
                watching.ready.push_back(Event::Bookmark(Bookmark {
                    resource_version: initial.version,
                    initial_events_end: true,
                }));
            }
        }
        watching.subscription = Some(subscription);
        watching
    }

    /// A watch from a revision that is forgotten: it says so and ends.
    fn refused(call: &Call<'_>, options: WatchOptions, too_old: TooOld, counter: OpenWatch) -> Self {
        let asked = options.resource_version.unwrap_or_default();
        let mut watching = Self::empty(call, options, counter);
        let status = Status::too_old(asked, too_old.oldest);
        watching.ready.push_back(Event::Error(Box::new(status)));
        watching
    }

    fn empty(call: &Call<'_>, options: WatchOptions, counter: OpenWatch) -> Self {
        let clock = &call.registry.clock;
        let lasts = options
            .timeout
            .unwrap_or_else(|| DEFAULT_TIMEOUT + DEFAULT_TIMEOUT.mul_f64(rand::random()));
        Self {
            subscription: None,
            ready: VecDeque::new(),
            bookmarks: options.bookmarks.then(|| Bookmarks::new(clock.clone(), lasts)),
            end: clock.sleep(lasts),
            scope: Scope {
                kind: call.resource.kind.clone(),
                namespace: call.namespace().into(),
                options,
            },
            _counter: counter,
        }
    }

    /// Takes the next batch, if there is one. Whether there may be something to tell now.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(subscription) = &mut self.subscription else {
            return Poll::Pending;
        };
        match subscription.poll_changes(cx) {
            Poll::Ready(Ok(batch)) => {
                let events = batch
                    .changes()
                    .iter()
                    .filter_map(|change| self.scope.event(change));
                self.ready.extend(events);
                Poll::Ready(())
            }
            Poll::Ready(Err(too_old)) => {
                let asked = ResourceVersion(too_old.oldest.0.saturating_sub(1));
                let status = Status::too_old(asked, too_old.oldest);
                self.ready.push_back(Event::Error(Box::new(status)));
                self.subscription = None;
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// A mark of progress, if one is due and nothing lies ready.
    fn mark(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (Some(bookmarks), Some(subscription)) = (&mut self.bookmarks, &self.subscription) else {
            return Poll::Pending;
        };
        if bookmarks.timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        bookmarks.wind();
        if let Some(version) = subscription.progress() {
            self.ready.push_back(Event::Bookmark(Bookmark {
                resource_version: version,
                initial_events_end: false,
            }));
        }
        Poll::Ready(())
    }
}

impl Stream for Watching {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let watching = self.get_mut();
        loop {
            if let Some(event) = watching.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            if watching.subscription.is_none() {
                return Poll::Ready(None);
            }
            if watching.advance(cx).is_ready() || watching.mark(cx).is_ready() {
                continue;
            }
            return watching.end.as_mut().poll(cx).map(|()| None);
        }
    }
}

// === impl Scope ===

impl Scope {
    fn holds(&self, object: &Stored) -> bool {
        let everywhere = self.namespace.is_empty();
        let options = &self.options;
        (everywhere || object.key().namespace() == self.namespace)
            && selects(&options.labels, &options.fields, object)
    }

    /// What the watcher is told of a change. An object that starts to be selected appears, one that stops disappears.
    fn event(&self, change: &Change) -> Option<Event> {
        match change {
            Change::Added(new) => self.holds(new).then(|| Event::Added(new.clone())),
            Change::Modified { old, new } => match (self.holds(old), self.holds(new)) {
                (true, true) => Some(Event::Modified(new.clone())),
                (false, true) => Some(Event::Added(new.clone())),
                (true, false) => Some(Event::Deleted(self.last(old, new))),
                (false, false) => None,
            },
            Change::Deleted { old, last } => self.holds(old).then(|| Event::Deleted(last.clone())),
        }
    }

    /// The last state that was selected, under the version at which it no longer is.
    fn last(&self, old: &Arc<Stored>, new: &Stored) -> Arc<Stored> {
        let version = new.resource_version();
        document::restamped(&*self.kind, old, version).unwrap_or_else(|_| old.clone())
    }
}

// === impl Bookmarks ===

impl Bookmarks {
    fn new(clock: Arc<dyn Clock>, lasts: Duration) -> Self {
        let mut bookmarks = Self {
            timer: clock.sleep(Duration::ZERO),
            clock,
            left: lasts.saturating_sub(BOOKMARK_BEFORE_END),
        };
        bookmarks.wind();
        bookmarks
    }

    /// Sets the timer for the next mark; behind the last one there is none.
    fn wind(&mut self) {
        let next = match self.left {
            Duration::ZERO => Duration::MAX,
            left => left.min(BOOKMARK_EVERY),
        };
        self.left = self.left.saturating_sub(next);
        self.timer = self.clock.sleep(next);
    }
}

// === impl OpenWatch ===

impl OpenWatch {
    fn new(call: &Call<'_>) -> Self {
        let counters = call.registry.counters.clone();
        counters.open_watches.fetch_add(1, Relaxed);
        Self(counters)
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.open_watches.fetch_sub(1, Relaxed);
    }
}

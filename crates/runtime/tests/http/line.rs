//! A line whose watches a test may freeze and cut, one resource at a time.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use setpoint_api::{Body, Event, GroupResource, Reply, Request, Response, Serve, Status, Verb, Watch};
use setpoint_client::Object;
use tokio::sync::watch;

/// A server behind a line. Requests other than watches pass as they are.
pub(crate) struct Line {
    serve: Arc<dyn Serve>,
    states: Mutex<HashMap<GroupResource, watch::Sender<State>>>,
}

/// What becomes of the watches of a resource.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// Events, and watches that are to begin, wait until they may pass.
    is_frozen: bool,
    /// How often all watches that were open have been ended.
    cuts: usize,
}

/// A watch on its way.
struct Passing {
    watch: Watch,
    state: watch::Receiver<State>,
    /// How many cuts there had been when it began.
    cuts: usize,
}

// === impl Line ===

impl Line {
    pub(crate) fn to(serve: Arc<dyn Serve>) -> Arc<Self> {
        let states = Mutex::default();
        Arc::new(Self { serve, states })
    }

    /// From now on, events of the type do not arrive, and no watch of it begins.
    pub(crate) fn freeze<T: Object>(&self) {
        self.change::<T>(|state| state.is_frozen = true);
    }

    /// The same, and those watches that are open end.
    pub(crate) fn cut<T: Object>(&self) {
        self.change::<T>(|state| {
            state.is_frozen = true;
            state.cuts += 1;
        });
    }

    /// Everything of the type passes again.
    pub(crate) fn mend<T: Object>(&self) {
        self.change::<T>(|state| state.is_frozen = false);
    }

    fn change<T: Object>(&self, change: impl FnOnce(&mut State)) {
        let mut states = self.states.lock();
        let own = states.entry(T::resource().group_resource());
        own.or_default().send_modify(change);
    }

    fn state(&self, resource: GroupResource) -> watch::Receiver<State> {
        self.states.lock().entry(resource).or_default().subscribe()
    }

    async fn watch(&self, request: Request) -> Result<Response, Status> {
        let mut state = self.state(request.target.resource.group_resource());
        let open = state.wait_for(|state| !state.is_frozen).await;
        let cuts = open.expect("the line that is asked is there").cuts;
        let mut response = self.serve.call(request).await?;
        if let Body::Watch(watch) = response.body {
            let events = stream::unfold(Passing { watch, state, cuts }, |mut own| async move {
                let event = own.next().await?;
                Some((event, own))
            });
            // A reader may look once more after the end.
            response.body = Body::Watch(Box::pin(events.fuse()));
        }
        Ok(response)
    }
}

impl Serve for Line {
    fn call(&self, request: Request) -> Reply<'_> {
        match request.verb {
            Verb::Watch(_) => Box::pin(self.watch(request)),
            _ => self.serve.call(request),
        }
    }
}

// === impl Passing ===

impl Passing {
    async fn next(&mut self) -> Option<Event> {
        loop {
            let state = *self.state.borrow_and_update();
            if state.cuts > self.cuts {
                return None;
            }
            // Where the line itself is gone, so are its watches.
            if state.is_frozen {
                self.state.changed().await.ok()?;
                continue;
            }
            tokio::select! {
                biased;
                changed = self.state.changed() => changed.ok()?,
                event = self.watch.next() => return event,
            }
        }
    }
}

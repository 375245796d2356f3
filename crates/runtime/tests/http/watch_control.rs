//! A `Serve` whose watches a test can freeze and cut, one resource at a time.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use setpoint_api::{Body, Event, GroupResource, Request, Response, Serve, ServeFuture, Status, Verb, Watch};
use setpoint_client::Object;
use tokio::sync::watch;

/// Wraps a server. Requests other than watches pass unchanged.
pub(crate) struct WatchControl {
    serve: Arc<dyn Serve>,
    states: Mutex<HashMap<GroupResource, watch::Sender<State>>>,
}

/// The state of a resource's watches.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// Events and new watches are delayed while this is set.
    is_frozen: bool,
    /// How often all open watches have been closed.
    cuts: usize,
}

/// A controlled watch.
struct ControlledWatch {
    watch: Watch,
    state: watch::Receiver<State>,
    /// The number of cuts when it began.
    cuts: usize,
}

// === impl WatchControl ===

impl WatchControl {
    pub(crate) fn to(serve: Arc<dyn Serve>) -> Arc<Self> {
        let states = Mutex::default();
        Arc::new(Self { serve, states })
    }

    /// From now on, events of the type do not arrive, and no watch of it begins.
    pub(crate) fn freeze<T: Object>(&self) {
        self.change::<T>(|state| state.is_frozen = true);
    }

    /// The same, and open watches are closed.
    pub(crate) fn cut<T: Object>(&self) {
        self.change::<T>(|state| {
            state.is_frozen = true;
            state.cuts += 1;
        });
    }

    /// Lets events and watches of the type pass again.
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
        let cuts = open.expect("the sender lives as long as the server").cuts;
        let mut response = self.serve.call(request).await?;
        if let Body::Watch(watch) = response.body {
            let events = stream::unfold(ControlledWatch { watch, state, cuts }, |mut own| async move {
                let event = own.next().await?;
                Some((event, own))
            });
            // A reader may poll again after the end.
            response.body = Body::Watch(Box::pin(events.fuse()));
        }
        Ok(response)
    }
}

impl Serve for WatchControl {
    fn call(&self, request: Request) -> ServeFuture<'_> {
        match request.verb {
            Verb::Watch(_) => Box::pin(self.watch(request)),
            _ => self.serve.call(request),
        }
    }
}

// === impl ControlledWatch ===

impl ControlledWatch {
    async fn next(&mut self) -> Option<Event> {
        loop {
            let state = *self.state.borrow_and_update();
            if state.cuts > self.cuts {
                return None;
            }
            // The sender is dropped with the server; its watches end.
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

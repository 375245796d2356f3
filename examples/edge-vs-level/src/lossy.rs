//! [`LossyServer`]: a server whose watches silently lose events on request, as a bug or a broken proxy does.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use setpoint_api::{Body, Event, Request, Serve, ServeFuture, Watch};
use tokio::sync::watch;

/// A [`Serve`] around a server that can drop watch events. All other responses are passed on.
pub struct LossyServer {
    serve: Arc<dyn Serve>,
    state: Arc<State>,
}

struct State {
    is_lossy: AtomicBool,
    /// How many delete events were dropped.
    deletions: watch::Sender<usize>,
}

impl LossyServer {
    pub fn new(serve: Arc<dyn Serve>) -> Self {
        let state = State {
            is_lossy: AtomicBool::new(false),
            deletions: watch::Sender::new(0),
        };
        Self {
            serve,
            state: Arc::new(state),
        }
    }

    /// Sets whether events are dropped. Bookmarks are passed on, so that the client does not notice.
    pub fn set_lossy(&self, is_lossy: bool) {
        self.state.is_lossy.store(is_lossy, Ordering::SeqCst);
    }

    /// How many delete events were dropped so far.
    pub fn deletions(&self) -> watch::Receiver<usize> {
        self.state.deletions.subscribe()
    }
}

impl Serve for LossyServer {
    fn call(&self, request: Request) -> ServeFuture<'_> {
        Box::pin(async move {
            let mut response = self.serve.call(request).await?;
            if let Body::Watch(watch) = response.body {
                response.body = Body::Watch(drop_events(watch, self.state.clone()));
            }
            Ok(response)
        })
    }
}

impl fmt::Debug for LossyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LossyServer").finish_non_exhaustive()
    }
}

fn drop_events(watch: Watch, state: Arc<State>) -> Watch {
    let arrives = move |event: &Event| {
        let is_change = matches!(event, Event::Added(_) | Event::Modified(_) | Event::Deleted(_));
        let is_lost = is_change && state.is_lossy.load(Ordering::SeqCst);
        if is_lost && matches!(event, Event::Deleted(_)) {
            state.deletions.send_modify(|lost| *lost += 1);
        }
        std::future::ready(!is_lost)
    };
    Box::pin(watch.filter(arrives))
}

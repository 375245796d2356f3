//! A server whose watches lose events when they are told to: silently, as a bug or a broken proxy does.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use setpoint_api::{Body, Event, Reply, Request, Serve, Watch};
use tokio::sync::watch;

/// The way to a server on which events may get lost. Answers to everything else arrive.
pub struct Lossy {
    serve: Arc<dyn Serve>,
    state: Arc<State>,
}

struct State {
    loses: AtomicBool,
    /// How many deletions nobody heard of.
    deletions: watch::Sender<usize>,
}

impl Lossy {
    pub fn new(serve: Arc<dyn Serve>) -> Self {
        let state = State {
            loses: AtomicBool::new(false),
            deletions: watch::Sender::new(0),
        };
        Self {
            serve,
            state: Arc::new(state),
        }
    }

    /// From now on, whether events get lost. The marks of progress in a watch arrive: nobody notices.
    pub fn lose(&self, loses: bool) {
        self.state.loses.store(loses, Ordering::SeqCst);
    }

    /// How many deletions have been lost so far.
    pub fn deletions(&self) -> watch::Receiver<usize> {
        self.state.deletions.subscribe()
    }
}

impl Serve for Lossy {
    fn call(&self, request: Request) -> Reply<'_> {
        Box::pin(async move {
            let mut response = self.serve.call(request).await?;
            if let Body::Watch(watch) = response.body {
                response.body = Body::Watch(thinned(watch, self.state.clone()));
            }
            Ok(response)
        })
    }
}

impl fmt::Debug for Lossy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lossy").finish_non_exhaustive()
    }
}

fn thinned(watch: Watch, state: Arc<State>) -> Watch {
    let arrives = move |event: &Event| {
        let is_news = matches!(event, Event::Added(_) | Event::Modified(_) | Event::Deleted(_));
        let is_lost = is_news && state.loses.load(Ordering::SeqCst);
        if is_lost && matches!(event, Event::Deleted(_)) {
            state.deletions.send_modify(|lost| *lost += 1);
        }
        std::future::ready(!is_lost)
    };
    Box::pin(watch.filter(arrives))
}

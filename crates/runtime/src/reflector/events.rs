//! Taking events from a watch.

use std::future::poll_fn;
use std::task::Poll;

use setpoint_api::{Event, Watch};

/// Events that are ready together are applied together, so many at most.
const BATCH_EVENTS: usize = 1000;

/// The next event; `None` at the end of the watch.
pub(super) async fn next_event(watch: &mut Watch) -> Option<Event> {
    poll_fn(|cx| watch.as_mut().poll_next(cx)).await
}

/// Events that came together.
#[derive(Debug, Default)]
pub(super) struct Ready {
    pub(super) events: Vec<Event>,
    /// Whether nothing comes after them: the watch must not be asked again.
    pub(super) is_last: bool,
}

/// The next events, as many as are there; perhaps none at the end of the watch.
pub(super) async fn ready_events(watch: &mut Watch) -> Ready {
    let mut ready = Ready::default();
    poll_fn(|cx| {
        while ready.events.len() < BATCH_EVENTS {
            match watch.as_mut().poll_next(cx) {
                Poll::Ready(Some(event)) => ready.events.push(event),
                Poll::Ready(None) => {
                    ready.is_last = true;
                    return Poll::Ready(());
                }
                Poll::Pending if ready.events.is_empty() => return Poll::Pending,
                Poll::Pending => return Poll::Ready(()),
            }
        }
        Poll::Ready(())
    })
    .await;
    ready
}

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

/// The next events, as many as are there; none at the end of the watch.
pub(super) async fn ready_events(watch: &mut Watch) -> Vec<Event> {
    let mut events = Vec::new();
    poll_fn(|cx| {
        while events.len() < BATCH_EVENTS {
            match watch.as_mut().poll_next(cx) {
                Poll::Ready(Some(event)) => events.push(event),
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending if events.is_empty() => return Poll::Pending,
                Poll::Pending => return Poll::Ready(()),
            }
        }
        Poll::Ready(())
    })
    .await;
    events
}

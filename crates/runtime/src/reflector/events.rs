//! Reads events from a watch, one at a time or in batches.

use std::future::poll_fn;
use std::task::Poll;

use setpoint_api::{Event, Watch};

/// The maximum number of events applied as one batch.
const BATCH_EVENTS: usize = 1000;

/// The next event; `None` at the end of the watch.
pub(super) async fn next_event(watch: &mut Watch) -> Option<Event> {
    poll_fn(|cx| watch.as_mut().poll_next(cx)).await
}

/// A batch of events that were ready together.
#[derive(Debug, Default)]
pub(super) struct ReadyEvents {
    pub(super) events: Vec<Event>,
    /// Whether the watch has ended and must not be polled again.
    pub(super) is_last: bool,
}

/// All events that are ready, waiting for the first; may be empty at the end of the watch.
pub(super) async fn ready_events(watch: &mut Watch) -> ReadyEvents {
    let mut ready = ReadyEvents::default();
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

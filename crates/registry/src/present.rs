//! What goes out, in the version that was asked for. Objects are stored in one version; the others are made of it here.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use setpoint_api::call::{Body, Watch};
use setpoint_api::{Event, Response, Status, Stored};
use setpoint_kinds::Kind;

use crate::call::Call;
use crate::error;

/// The answer in the version of the request.
pub(crate) fn response(call: &Call<'_>, mut response: Response) -> Result<Response, Status> {
    if !call.kind.converts() {
        return Ok(response);
    }
    let present = |object: &Arc<Stored>| call.kind.present(object).map_err(error::unreadable);
    response.body = match response.body {
        Body::Object(object) => Body::Object(present(&object)?),
        Body::List(mut list) => {
            list.items = list.items.iter().map(present).collect::<Result<_, _>>()?;
            Body::List(list)
        }
        Body::Watch(inner) => Body::Watch(Box::pin(Presented {
            inner,
            kind: call.kind.clone(),
        })),
        body => body,
    };
    Ok(response)
}

/// A watch in the version of the request.
struct Presented {
    inner: Watch,
    kind: Arc<dyn Kind>,
}

impl Presented {
    fn event(&self, event: Event) -> Event {
        let present = |object: Arc<Stored>, event: fn(Arc<Stored>) -> Event| match self.kind.present(&object)
        {
            Ok(object) => event(object),
            Err(problem) => Event::Error(Box::new(error::unreadable(problem))),
        };
        match event {
            Event::Added(object) => present(object, Event::Added),
            Event::Modified(object) => present(object, Event::Modified),
            Event::Deleted(object) => present(object, Event::Deleted),
            event => event,
        }
    }
}

impl Stream for Presented {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let next = self.inner.as_mut().poll_next(cx);
        next.map(|event| event.map(|event| self.event(event)))
    }
}

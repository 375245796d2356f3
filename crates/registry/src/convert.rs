//! Conversion of responses to the version of the request, where the kind itself can convert. Objects are stored in one
//! version and converted when read. `conversion` is for kinds that need a webhook.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use setpoint_api::call::{Body, Watch};
use setpoint_api::{Event, Response, Status, Stored, off_worker};
use setpoint_strategy::Kind;

use crate::error;
use crate::request_context::RequestContext;

/// A list of more objects is converted off the worker threads: an object may have to be decoded and encoded again.
const LARGE_CONVERSION_OBJECTS: usize = 500;

/// The response in the version of the request; that of a watch is already.
pub(crate) fn response(context: &RequestContext<'_>, mut response: Response) -> Result<Response, Status> {
    if !context.kind.converts() {
        return Ok(response);
    }
    let convert = |object: &Arc<Stored>| {
        context
            .kind
            .to_request_version(object)
            .map_err(error::undecodable)
    };
    response.body = match response.body {
        Body::Object(object) => Body::Object(convert(&object)?),
        Body::List(mut list) => {
            let converted = || list.items.iter().map(convert).collect::<Result<_, _>>();
            list.items = match list.items.len() > LARGE_CONVERSION_OBJECTS {
                true => off_worker(converted)?,
                false => converted()?,
            };
            Body::List(list)
        }
        body => body,
    };
    Ok(response)
}

/// A watch in the version of the request.
pub(crate) fn watch(context: &RequestContext<'_>, inner: Watch) -> Watch {
    match context.kind.converts() {
        false => inner,
        true => Box::pin(ConvertedWatch {
            inner,
            kind: context.kind.clone(),
        }),
    }
}

/// A watch whose events are converted one by one.
struct ConvertedWatch {
    inner: Watch,
    kind: Arc<dyn Kind>,
}

impl ConvertedWatch {
    fn event(&self, event: Event) -> Event {
        let convert = |object: Arc<Stored>, event: fn(Arc<Stored>) -> Event| match self
            .kind
            .to_request_version(&object)
        {
            Ok(object) => event(object),
            Err(problem) => Event::Error(Box::new(error::undecodable(problem))),
        };
        match event {
            Event::Added(object) => convert(object, Event::Added),
            Event::Modified(object) => convert(object, Event::Modified),
            Event::Deleted(object) => convert(object, Event::Deleted),
            event => event,
        }
    }
}

impl Stream for ConvertedWatch {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let next = self.inner.as_mut().poll_next(cx);
        next.map(|event| event.map(|event| self.event(event)))
    }
}

//! Limit of the request body: three mebibytes, as upstream.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use setpoint_api::{Clock, Status};

use crate::request::options::StatusError;

/// How long a rejected request may go on sending its body.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum length of a request body.
pub(crate) const BODY_BYTES: usize = 3 * 1024 * 1024;

/// Reads a whole body. One whose Content-Length exceeds the limit is not read at all.
pub(crate) async fn read<B>(body: &mut B) -> Result<Bytes, StatusError>
where
    B: Body + Unpin,
    B::Error: std::fmt::Display,
{
    check_length(body)?;
    let mut all = BytesMut::new();
    let mut first = Bytes::new();
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| Box::new(Status::bad_request(format!("unable to read the body: {error}"))))?;
        let Ok(mut data) = frame.into_data() else { continue };
        if first.is_empty() && all.is_empty() {
            first = data.copy_to_bytes(data.remaining());
        } else {
            all.put(std::mem::take(&mut first));
            all.put(data);
        }
        if first.len() + all.len() > BODY_BYTES {
            return Err(too_large());
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// Rejects a body whose Content-Length exceeds the limit.
pub(crate) fn check_length(body: &impl Body) -> Result<(), StatusError> {
    match body.size_hint().lower() > BODY_BYTES as u64 {
        true => Err(too_large()),
        false => Ok(()),
    }
}

/// Reads and discards the rest of a body, up to the limit and for a short time: a client that is still sending would
/// not read an early response. What is left closes the connection.
pub(crate) async fn drain<B: Body + Unpin>(body: &mut B, clock: &dyn Clock) {
    if body.is_end_stream() {
        return;
    }
    tokio::select! {
        biased;
        () = discard(body) => {}
        () = clock.sleep(DRAIN_TIMEOUT) => {}
    }
}

async fn discard<B: Body + Unpin>(body: &mut B) {
    let mut left = BODY_BYTES as u64;
    while !body.is_end_stream() && body.size_hint().lower() <= left {
        let Some(Ok(frame)) = body.frame().await else {
            return;
        };
        let length = frame.data_ref().map_or(0, Buf::remaining) as u64;
        let Some(rest) = left.checked_sub(length) else {
            return;
        };
        left = rest;
    }
}

fn too_large() -> StatusError {
    Box::new(Status::request_entity_too_large(BODY_BYTES))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::FutureExt;
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};
    use setpoint_api::SystemClock;

    use super::*;

    fn frames_of(sizes: &[usize]) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let frames: Vec<_> = sizes
            .iter()
            .map(|size| Ok(Frame::data(Bytes::from(vec![b'x'; *size]))))
            .collect();
        StreamBody::new(futures_util::stream::iter(frames))
    }

    #[track_caller]
    fn check(sizes: &[usize], expected: Result<usize, u16>) {
        let read = read(&mut frames_of(sizes)).now_or_never().unwrap();
        assert_eq!(
            read.map(|bytes| bytes.len()).map_err(|status| status.code),
            expected
        );
    }

    #[test]
    fn the_rest_is_drained_up_to_the_limit() {
        let mut body = frames_of(&[1, 2, 3]);
        discard(&mut body).now_or_never().unwrap();
        assert_eq!(read(&mut body).now_or_never().unwrap().unwrap().len(), 0);
        let mut body = frames_of(&[BODY_BYTES, 1, 5]);
        discard(&mut body).now_or_never().unwrap();
        assert_eq!(read(&mut body).now_or_never().unwrap().unwrap().len(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_drained_for_a_short_time() {
        let clock = SystemClock::new();
        let started = clock.now();
        let endless = futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>();
        drain(&mut StreamBody::new(endless), &clock).await;
        let took = clock.now().duration_since(started);
        assert_eq!(took.as_secs(), DRAIN_TIMEOUT.as_secs() as i64);
    }

    #[test]
    fn frames_are_concatenated() {
        check(&[], Ok(0));
        check(&[5], Ok(5));
        check(&[1, 2, 3], Ok(6));
        check(&[BODY_BYTES - 1, 1], Ok(BODY_BYTES));
    }

    #[test]
    fn a_body_over_the_limit_is_rejected() {
        check(&[BODY_BYTES, 1], Err(413));
    }

    #[test]
    fn a_body_with_a_content_length_over_the_limit_is_not_read() {
        let mut body = Full::new(Bytes::from(vec![0; BODY_BYTES + 1]));
        assert_eq!(read(&mut body).now_or_never().unwrap().unwrap_err().code, 413);
    }
}

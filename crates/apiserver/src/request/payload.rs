//! Payload of a resource request: its body, with the encoding that the content type names.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body::Body as _;
use hyper::body::Incoming;
use setpoint_api::call::Encoding;
use setpoint_api::options::PatchType;
use setpoint_api::{ApiVerb, Payload, Status, User};
use setpoint_codec::media::MediaType;

use super::options::StatusError;
use crate::filters::bodies_in_flight::{BodiesInFlight, BodyReservation};
use crate::filters::limit;
use crate::negotiate::{self, Supported, header};

/// The request body, and its bytes in flight until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct ReceivedPayload<'a> {
    /// Absent if the body is empty or the verb has none.
    pub(crate) payload: Option<Payload>,
    pub(crate) reservation: Option<BodyReservation<'a>>,
}

/// Reads the body of a request that is not a read. A delete's content type is only checked if there is a body.
pub(crate) async fn read<'a>(
    headers: &HeaderMap,
    verb: ApiVerb,
    supported: Supported,
    body: &mut Option<Incoming>,
    (bodies, user): (&'a BodiesInFlight, &User),
) -> Result<ReceivedPayload<'a>, StatusError> {
    let mut received = ReceivedPayload::default();
    let Some(body) = body.as_mut() else {
        return Ok(received);
    };
    let encoding = match verb {
        ApiVerb::Patch => patch_type(headers).map(patch_encoding),
        _ => encoding(headers, supported),
    };
    let may_be_empty = matches!(verb, ApiVerb::Delete | ApiVerb::DeleteCollection);
    if !may_be_empty && let Err(unknown) = encoding {
        return Err(unknown);
    }
    limit::check_length(body)?;
    received.reservation = bodies.reserve(&user.name, body.size_hint().exact())?;
    let bytes = limit::read(body).await?;
    if !may_be_empty || !bytes.is_empty() {
        let encoding = encoding?;
        received.payload = Some(Payload { encoding, bytes });
    }
    Ok(received)
}

fn encoding(headers: &HeaderMap, supported: Supported) -> Result<Encoding, StatusError> {
    MediaType::parse(header(headers, &CONTENT_TYPE))
        .encoding()
        .filter(|encoding| *encoding != Encoding::Protobuf || supported.has_protobuf())
        .ok_or_else(|| Box::new(Status::unsupported_media_type(supported.media_types())))
}

/// The patch type, which the content type names.
pub(crate) fn patch_type(headers: &HeaderMap) -> Result<PatchType, StatusError> {
    match MediaType::parse(header(headers, &CONTENT_TYPE)).essence {
        "application/json-patch+json" => Ok(PatchType::Json),
        "application/merge-patch+json" => Ok(PatchType::Merge),
        "application/strategic-merge-patch+json" => Ok(PatchType::StrategicMerge),
        "application/apply-patch+yaml" => Ok(PatchType::Apply),
        _ => Err(negotiate::unknown_content_type()),
    }
}

fn patch_encoding(patch_type: PatchType) -> Encoding {
    match patch_type {
        PatchType::Apply => Encoding::Yaml,
        PatchType::Json | PatchType::Merge | PatchType::StrategicMerge => Encoding::Json,
    }
}

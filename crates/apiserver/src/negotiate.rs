//! Content negotiation: encoding and representation of a response, by the `Accept` header.
//!
//! Clauses are tried by descending quality. A clause that cannot be served is skipped, so
//! `application/json;as=Table;v=v1;g=meta.k8s.io,application/json` falls back to the plain object where there is no
//! table.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use setpoint_api::Status;
use setpoint_api::call::Encoding;
use setpoint_api::status::Details;
use setpoint_codec::media::MediaType;
use setpoint_codec::{media, protobuf};
use setpoint_strategy::Kind;

use crate::request::options::StatusError;
use crate::request::query::Query;

/// The encodings and representations a resource or discovery document supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Supported {
    /// Whether there are alternate representations: metadata only, and tables if the kind can be listed.
    alternates: bool,
    tables: bool,
    yaml: bool,
    protobuf: bool,
}

/// The negotiated encoding and representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Negotiated {
    pub format: Format,
    pub representation: Representation,
    pub pretty: bool,
}

/// The encoding of the response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    Protobuf,
}

/// The representation of the object (`as=` in the `Accept` header).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Representation {
    /// The object or list itself.
    Plain,
    /// A Table of this API version.
    Table(&'static str),
    /// A PartialObjectMetadata of this API version.
    Metadata(&'static str),
    /// A PartialObjectMetadataList of this API version.
    MetadataList(&'static str),
}

impl Negotiated {
    pub(crate) const JSON: Self = Self {
        format: Format::Json,
        representation: Representation::Plain,
        pretty: false,
    };
}

impl Supported {
    /// For `/version`: JSON only.
    const JSON: Self = Self {
        alternates: false,
        tables: false,
        yaml: false,
        protobuf: false,
    };
    /// For discovery and Status: every encoding, no alternate representation.
    const PLAIN: Self = Self {
        alternates: false,
        tables: false,
        yaml: true,
        protobuf: true,
    };

    /// For the objects of a kind.
    pub(crate) fn of(kind: &dyn Kind) -> Self {
        Self {
            alternates: true,
            tables: kind.info().has_items(),
            yaml: true,
            protobuf: protobuf::has_protobuf_form(kind.shape()),
        }
    }

    /// The supported media types, as error messages list them.
    pub(crate) fn media_types(self) -> &'static str {
        match (self.yaml, self.protobuf) {
            (_, true) => "application/json, application/yaml, application/vnd.kubernetes.protobuf",
            (true, false) => "application/json, application/yaml",
            (false, false) => "application/json",
        }
    }

    /// The media types of a watch, as error messages list them.
    fn stream_media_types(self) -> &'static str {
        match self.protobuf {
            true => "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
            false => "application/json;stream=watch",
        }
    }

    /// Whether protobuf is supported.
    pub(crate) fn has_protobuf(self) -> bool {
        self.protobuf
    }

    /// Whether a representation is supported in a format. Tables have no protobuf encoding.
    fn supports(self, format: Format, form: Representation) -> bool {
        let table = matches!(form, Representation::Table(_));
        let has_format = match format {
            Format::Json => true,
            Format::Yaml => self.yaml,
            Format::Protobuf => self.protobuf && !table,
        };
        has_format && (self.tables || !table)
    }
}

/// Negotiates the response of a resource request. `with_streams`: whether error messages also list the media types of a
/// watch.
pub(crate) fn resource(
    headers: &HeaderMap,
    query: &Query<'_>,
    supported: Supported,
    with_streams: bool,
) -> Result<Negotiated, StatusError> {
    let accept = header(headers, &ACCEPT);
    let mut negotiated = choose(accept, supported).map_err(|error| match error {
        NegotiationError::Type => unknown_type(supported, with_streams),
        NegotiationError::Parameters => Box::new(Status::not_acceptable(supported.media_types())),
    })?;
    negotiated.pretty |= is_pretty(headers, query);
    Ok(negotiated)
}

/// Negotiates a watch, which is sent as JSON lines or protobuf frames.
pub(crate) fn watch(headers: &HeaderMap, supported: Supported) -> Result<Negotiated, StatusError> {
    let streamed = Supported {
        yaml: false,
        ..supported
    };
    choose(header(headers, &ACCEPT), streamed).map_err(|error| match error {
        NegotiationError::Type => unknown_type(supported, true),
        NegotiationError::Parameters => Box::new(Status::not_acceptable(supported.stream_media_types())),
    })
}

/// Negotiates a discovery document.
pub(crate) fn discovery(headers: &HeaderMap, query: &Query<'_>) -> Result<Negotiated, StatusError> {
    let chosen = choose(header(headers, &ACCEPT), Supported::PLAIN);
    let mut negotiated =
        chosen.map_err(|_| Box::new(Status::not_acceptable(Supported::PLAIN.media_types())))?;
    negotiated.pretty |= is_pretty(headers, query);
    Ok(negotiated)
}

/// Negotiates a discovery document of the router that also serves resources, which is stricter: the media type must be
/// named in full, and a `Content-Type` must be a known one although there is no body.
pub(crate) fn routed_discovery(headers: &HeaderMap, query: &Query<'_>) -> Result<Negotiated, StatusError> {
    check_content_type(headers, Supported::PLAIN)?;
    check_named(headers, Supported::PLAIN)?;
    discovery(headers, query)
}

/// Checks the headers of a `/version` request, whose response is always JSON.
pub(crate) fn check_version_request(headers: &HeaderMap) -> Result<(), StatusError> {
    check_content_type(headers, Supported::JSON)?;
    check_named(headers, Supported::JSON)
}

fn check_content_type(headers: &HeaderMap, supported: Supported) -> Result<(), StatusError> {
    let content_type = header(headers, &CONTENT_TYPE);
    let is_known = match MediaType::parse(content_type).encoding() {
        Some(Encoding::Json) => true,
        Some(Encoding::Yaml) => supported.yaml,
        Some(Encoding::Protobuf) => supported.protobuf,
        None => false,
    };
    match content_type.is_empty() || is_known {
        true => Ok(()),
        false => Err(unknown_content_type()),
    }
}

fn check_named(headers: &HeaderMap, supported: Supported) -> Result<(), StatusError> {
    let accept = header(headers, &ACCEPT);
    let named = |clause: MediaType<'_>| match clause.essence {
        "*/*" | media::JSON => true,
        media::YAML => supported.yaml,
        media::PROTOBUF => supported.protobuf,
        _ => false,
    };
    match accept.is_empty() || media::parse_accept(accept).into_iter().any(named) {
        true => Ok(()),
        false => Err(unknown_type(supported, false)),
    }
}

/// The 415 error of upstream's router, which matches on the content type.
pub(crate) fn unknown_content_type() -> StatusError {
    bare_status(
        415,
        "UnsupportedMediaType",
        "415: Unsupported Media Type".to_owned(),
    )
}

/// Negotiates an error response: what the client accepts if supported, otherwise JSON.
pub(crate) fn error(headers: &HeaderMap, query: &Query<'_>) -> Negotiated {
    let mut negotiated = choose(header(headers, &ACCEPT), Supported::PLAIN).unwrap_or(Negotiated::JSON);
    negotiated.pretty |= is_pretty(headers, query);
    negotiated
}

/// Why no clause of the `Accept` header can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NegotiationError {
    /// No clause names a supported media type.
    Type,
    /// One does, but with unsupported parameters.
    Parameters,
}

fn choose(accept: &str, supported: Supported) -> Result<Negotiated, NegotiationError> {
    if matches!(accept, "" | "*/*" | "application/json" | "application/json, */*") {
        return Ok(Negotiated::JSON);
    }
    let mut error = NegotiationError::Type;
    for clause in media::parse_accept(accept) {
        let format = match clause.essence {
            "*/*" | media::JSON => Format::Json,
            "application/*" if !supported.alternates => Format::Json,
            media::YAML => Format::Yaml,
            media::PROTOBUF => Format::Protobuf,
            _ => continue,
        };
        match representation(&clause, supported.alternates)
            .filter(|representation| supported.supports(format, *representation))
        {
            Some(representation) => {
                return Ok(Negotiated {
                    format,
                    representation,
                    pretty: clause.parameter("pretty") == Some("1"),
                });
            }
            None => error = NegotiationError::Parameters,
        }
    }
    Err(error)
}

fn representation(clause: &MediaType<'_>, with_alternates: bool) -> Option<Representation> {
    let Some(name) = clause.parameter("as") else {
        return Some(Representation::Plain);
    };
    let version = match clause.parameter("v")? {
        "v1" => "meta.k8s.io/v1",
        "v1beta1" => "meta.k8s.io/v1beta1",
        _ => return None,
    };
    if !with_alternates || clause.parameter("g") != Some("meta.k8s.io") {
        return None;
    }
    match name {
        "Table" => Some(Representation::Table(version)),
        "PartialObjectMetadata" => Some(Representation::Metadata(version)),
        "PartialObjectMetadataList" => Some(Representation::MetadataList(version)),
        _ => None,
    }
}

/// The text of a header; empty if it is absent or not text.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .trim()
}

/// Whether JSON is indented: by the `pretty` parameter, or else for interactive user agents.
fn is_pretty(headers: &HeaderMap, query: &Query<'_>) -> bool {
    match query.text("pretty") {
        Some(value) => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => {
            let agent = header(headers, &USER_AGENT);
            ["curl", "Wget", "Mozilla/5.0"]
                .iter()
                .any(|name| agent.starts_with(name))
        }
    }
}

fn unknown_type(supported: Supported, with_streams: bool) -> StatusError {
    let mut message = format!(
        "406: Not Acceptable\n\nAvailable representations: {}",
        supported.media_types()
    );
    if with_streams {
        message.push_str(", ");
        message.push_str(supported.stream_media_types());
    }
    bare_status(406, "NotAcceptable", message)
}

fn bare_status(code: u16, reason: &str, message: String) -> StatusError {
    Box::new(Status {
        status: "Failure".to_owned(),
        message,
        reason: reason.to_owned(),
        details: Some(Details::default()),
        code,
        ..Status::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

    #[track_caller]
    fn check(accept: &str, expected: Result<(Format, Representation), NegotiationError>) {
        let chosen = choose(accept, ALL).map(|negotiated| (negotiated.format, negotiated.representation));
        assert_eq!(chosen, expected, "{accept}");
    }

    const ALL: Supported = Supported {
        alternates: true,
        tables: true,
        ..Supported::PLAIN
    };
    const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    const BINARY_TABLE: &str = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";

    /// The error message for an `Accept` header; empty on success.
    fn error_message(accept: &str, choose: impl Fn(&HeaderMap) -> Result<Negotiated, StatusError>) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        choose(&headers)
            .err()
            .map(|status| status.message)
            .unwrap_or_default()
    }

    #[test]
    fn json_is_the_default() {
        for accept in [
            "",
            "*/*",
            "application/json",
            "application/json, */*",
            "text/html,application/json",
        ] {
            check(accept, Ok((Format::Json, Representation::Plain)));
        }
        check("application/yaml", Ok((Format::Yaml, Representation::Plain)));
        check(
            "application/json;profile=x",
            Ok((Format::Json, Representation::Plain)),
        );
    }

    #[test]
    fn protobuf_is_negotiated_if_the_kind_supports_it() {
        let accept = "application/vnd.kubernetes.protobuf,application/json";
        check(accept, Ok((Format::Protobuf, Representation::Plain)));
        check(
            METADATA,
            Ok((Format::Protobuf, Representation::Metadata("meta.k8s.io/v1"))),
        );
        let custom = Supported {
            protobuf: false,
            ..ALL
        };
        assert_eq!(choose(accept, custom), Ok(Negotiated::JSON));
        assert_eq!(choose(media::PROTOBUF, custom), Err(NegotiationError::Parameters));
        assert_eq!(choose(accept, Supported::JSON), Ok(Negotiated::JSON));
    }

    #[test]
    fn tables_are_never_protobuf() {
        check(BINARY_TABLE, Err(NegotiationError::Parameters));
        check(
            &format!("{BINARY_TABLE},application/json"),
            Ok((Format::Json, Representation::Plain)),
        );
    }

    #[test]
    fn a_watch_is_json_or_protobuf() {
        let watched = |accept: &str| error_message(accept, |headers| watch(headers, ALL));
        assert_eq!(watched("application/vnd.kubernetes.protobuf;stream=watch"), "");
        assert_eq!(watched("application/yaml,application/json"), "");
        assert_eq!(
            watched("application/yaml"),
            "only the following media types are accepted: application/json;stream=watch, \
             application/vnd.kubernetes.protobuf;stream=watch"
        );
    }

    #[test]
    fn an_error_lists_the_supported_media_types() {
        let message = |accept: &str, with_streams: bool| {
            error_message(accept, |headers| {
                resource(headers, &Query::parse(None), ALL, with_streams)
            })
        };
        let all = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        let missing = "406: Not Acceptable\n\nAvailable representations:";
        assert_eq!(message("bogus", false), format!("{missing} {all}"));
        assert_eq!(message("bogus", true), format!("{missing} {all}, {streams}"));
        assert_eq!(
            message(BINARY_TABLE, true),
            format!("only the following media types are accepted: {all}")
        );
    }

    #[test]
    fn routed_discovery_is_strict_about_media_types() {
        let error = |name, value: &str, read: fn(&HeaderMap) -> Result<(), StatusError>| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            read(&headers)
                .err()
                .map(|status| (status.code, status.message))
                .unwrap_or_default()
        };
        let routed = |headers: &HeaderMap| routed_discovery(headers, &Query::parse(None)).map(drop);
        let unrouted = |headers: &HeaderMap| discovery(headers, &Query::parse(None)).map(drop);
        let fine = (0, String::new());
        assert_eq!(error(ACCEPT, "application/*", routed).0, 406);
        assert_eq!(error(ACCEPT, "application/*", unrouted), fine);
        assert_eq!(error(ACCEPT, media::YAML, routed), fine);
        assert_eq!(error(ACCEPT, media::YAML, check_version_request).0, 406);
        assert_eq!(error(CONTENT_TYPE, "text/plain", unrouted), fine);
        let unknown = (415, "415: Unsupported Media Type".to_owned());
        assert_eq!(error(CONTENT_TYPE, "text/plain", routed), unknown);
        assert_eq!(error(CONTENT_TYPE, media::YAML, check_version_request), unknown);
    }

    #[test]
    fn a_status_has_the_encoding_the_client_accepts() {
        let format = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            error(&headers, &Query::parse(None)).format
        };
        assert_eq!(format(media::PROTOBUF), Format::Protobuf);
        assert_eq!(
            format("application/vnd.kubernetes.protobuf,application/json"),
            Format::Protobuf
        );
        assert_eq!(format(&format!("{METADATA},{}", media::YAML)), Format::Yaml);
        assert_eq!(format(METADATA), Format::Json);
        assert_eq!(format("bogus"), Format::Json);
    }

    #[test]
    fn quality_orders_the_clauses() {
        check(
            "application/json;q=0.5,application/yaml",
            Ok((Format::Yaml, Representation::Plain)),
        );
        check(
            "application/yaml;q=0.5,application/json;q=0.9",
            Ok((Format::Json, Representation::Plain)),
        );
    }

    #[test]
    fn tables_and_metadata_are_representations() {
        check(TABLE, Ok((Format::Json, Representation::Table("meta.k8s.io/v1"))));
        check(
            "application/yaml;as=Table;v=v1beta1;g=meta.k8s.io",
            Ok((Format::Yaml, Representation::Table("meta.k8s.io/v1beta1"))),
        );
        check(
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            Ok((Format::Json, Representation::MetadataList("meta.k8s.io/v1"))),
        );
    }

    #[test]
    fn a_clause_that_cannot_be_served_is_skipped() {
        check(
            "application/json;as=Bogus;v=v1;g=meta.k8s.io,application/json",
            Ok((Format::Json, Representation::Plain)),
        );
        check(
            "application/json;as=Table;v=v9;g=meta.k8s.io",
            Err(NegotiationError::Parameters),
        );
    }

    #[test]
    fn unknown_types_are_rejected() {
        for accept in ["text/plain", "application/*", "bogus", "application/cbor"] {
            check(accept, Err(NegotiationError::Type));
        }
    }

    #[test]
    fn interactive_clients_get_indented_json() {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, "curl/8.5".parse().unwrap());
        let pretty = |query| {
            resource(&headers, &Query::parse(Some(query)), ALL, false)
                .unwrap()
                .pretty
        };
        assert!(pretty(""));
        assert!(pretty("pretty=true"));
        assert!(!pretty("pretty=false"));
        assert!(!pretty("pretty=x"));
    }
}

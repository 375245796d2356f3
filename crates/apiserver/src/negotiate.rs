//! Which form of an answer a caller wants, by its `Accept` header.
//!
//! Clauses are tried by falling quality. A clause that cannot be served is passed over, so
//! `application/json;as=Table;v=v1;g=meta.k8s.io,application/json` falls back to the plain object where there is no table.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use setpoint_api::Status;
use setpoint_api::call::Encoding;
use setpoint_api::status::Details;
use setpoint_codec::media::MediaType;
use setpoint_codec::{media, protobuf};
use setpoint_kinds::Kind;

use crate::request::options::Refused;
use crate::request::query::Query;

/// What can be had of a resource or a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Whether there are other forms: bare metadata, and tables if there is anything to list.
    forms: bool,
    tables: bool,
    yaml: bool,
    protobuf: bool,
}

/// What a caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub format: Format,
    pub form: Form,
    pub pretty: bool,
}

/// How the bytes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    Protobuf,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The object or list itself.
    Plain,
    /// Rows and columns, in this version of the table.
    Table(&'static str),
    /// Metadata only, in this version.
    Metadata(&'static str),
    /// A list of metadata only, in this version.
    MetadataList(&'static str),
}

impl Wanted {
    pub(crate) const JSON: Self = Self {
        format: Format::Json,
        form: Form::Plain,
        pretty: false,
    };
}

impl Offer {
    /// What the version of the program is written in.
    const JSON: Self = Self {
        forms: false,
        tables: false,
        yaml: false,
        protobuf: false,
    };
    /// What discovery, or a status, is written in.
    const DOCUMENT: Self = Self {
        forms: false,
        tables: false,
        yaml: true,
        protobuf: true,
    };

    /// What objects of a kind are read and written in.
    pub(crate) fn of(kind: &dyn Kind) -> Self {
        Self {
            forms: true,
            tables: kind.about().has_items(),
            yaml: true,
            protobuf: protobuf::has_form(kind.shape()),
        }
    }

    /// The media types bodies may be written in, as refusals list them.
    pub(crate) fn accepted(self) -> &'static str {
        match (self.yaml, self.protobuf) {
            (_, true) => "application/json, application/yaml, application/vnd.kubernetes.protobuf",
            (true, false) => "application/json, application/yaml",
            (false, false) => "application/json",
        }
    }

    /// The media types a watch may be sent in.
    fn streams(self) -> &'static str {
        match self.protobuf {
            true => "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
            false => "application/json;stream=watch",
        }
    }

    /// Whether bodies may be written in protobuf.
    pub(crate) fn has_protobuf(self) -> bool {
        self.protobuf
    }

    /// Whether a form can be had in a format. Tables have no messages.
    fn has(self, format: Format, form: Form) -> bool {
        let table = matches!(form, Form::Table(_));
        let has_format = match format {
            Format::Json => true,
            Format::Yaml => self.yaml,
            Format::Protobuf => self.protobuf && !table,
        };
        has_format && (self.tables || !table)
    }
}

/// Reads what the caller wants of a resource. `listed` says whether the collection's own forms are offered as well.
pub(crate) fn resource(
    headers: &HeaderMap,
    query: &Query<'_>,
    offer: Offer,
    listed: bool,
) -> Result<Wanted, Refused> {
    let accept = header(headers, &ACCEPT);
    let mut wanted = choose(accept, offer).map_err(|miss| match miss {
        Miss::Type => unknown_type(offer, listed),
        Miss::Parameters => Box::new(Status::not_acceptable(offer.accepted())),
    })?;
    wanted.pretty |= is_pretty(headers, query);
    Ok(wanted)
}

/// Reads what the caller wants of a watch, which is sent as lines of JSON or frames of protobuf.
pub(crate) fn watch(headers: &HeaderMap, offer: Offer) -> Result<Wanted, Refused> {
    let streamed = Offer { yaml: false, ..offer };
    choose(header(headers, &ACCEPT), streamed).map_err(|miss| match miss {
        Miss::Type => unknown_type(offer, true),
        Miss::Parameters => Box::new(Status::not_acceptable(offer.streams())),
    })
}

/// Reads what the caller wants of a document that has one form only, such as the groups there are.
pub(crate) fn document(headers: &HeaderMap, query: &Query<'_>) -> Result<Wanted, Refused> {
    let chosen = choose(header(headers, &ACCEPT), Offer::DOCUMENT);
    let mut wanted = chosen.map_err(|_| Box::new(Status::not_acceptable(Offer::DOCUMENT.accepted())))?;
    wanted.pretty |= is_pretty(headers, query);
    Ok(wanted)
}

/// The same for a document that is found as a resource is, where stricter rules hold: a media type must be named in
/// full, and so must that of a body, though there is none.
pub(crate) fn routed_document(headers: &HeaderMap, query: &Query<'_>) -> Result<Wanted, Refused> {
    check_content_type(headers, Offer::DOCUMENT)?;
    check_named(headers, Offer::DOCUMENT)?;
    document(headers, query)
}

/// The version of the program, which is JSON whatever is asked of it.
pub(crate) fn json_document(headers: &HeaderMap) -> Result<(), Refused> {
    check_content_type(headers, Offer::JSON)?;
    check_named(headers, Offer::JSON)
}

fn check_content_type(headers: &HeaderMap, offer: Offer) -> Result<(), Refused> {
    let given = header(headers, &CONTENT_TYPE);
    let known = match MediaType::parse(given).encoding() {
        Some(Encoding::Json) => true,
        Some(Encoding::Yaml) => offer.yaml,
        Some(Encoding::Protobuf) => offer.protobuf,
        None => false,
    };
    match given.is_empty() || known {
        true => Ok(()),
        false => Err(unknown_content_type()),
    }
}

fn check_named(headers: &HeaderMap, offer: Offer) -> Result<(), Refused> {
    let accept = header(headers, &ACCEPT);
    let named = |clause: MediaType<'_>| match clause.essence {
        "*/*" | media::JSON => true,
        media::YAML => offer.yaml,
        media::PROTOBUF => offer.protobuf,
        _ => false,
    };
    match accept.is_empty() || media::clauses(accept).into_iter().any(named) {
        true => Ok(()),
        false => Err(unknown_type(offer, false)),
    }
}

/// What is said where the media type of a body decides whether anything is found at all.
pub(crate) fn unknown_content_type() -> Refused {
    unfit(
        415,
        "UnsupportedMediaType",
        "415: Unsupported Media Type".to_owned(),
    )
}

/// What errors are written in: what the caller reads if that is known, otherwise JSON.
pub(crate) fn failure(headers: &HeaderMap, query: &Query<'_>) -> Wanted {
    let mut wanted = choose(header(headers, &ACCEPT), Offer::DOCUMENT).unwrap_or(Wanted::JSON);
    wanted.pretty |= is_pretty(headers, query);
    wanted
}

/// Why no clause could be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Miss {
    /// No clause names a media type that is served.
    Type,
    /// One does, but asks for something of it that is not there.
    Parameters,
}

fn choose(accept: &str, offer: Offer) -> Result<Wanted, Miss> {
    if matches!(accept, "" | "*/*" | "application/json" | "application/json, */*") {
        return Ok(Wanted::JSON);
    }
    let mut miss = Miss::Type;
    for clause in media::clauses(accept) {
        let format = match clause.essence {
            "*/*" | media::JSON => Format::Json,
            "application/*" if !offer.forms => Format::Json,
            media::YAML => Format::Yaml,
            media::PROTOBUF => Format::Protobuf,
            _ => continue,
        };
        match form(&clause, offer.forms).filter(|form| offer.has(format, *form)) {
            Some(form) => {
                return Ok(Wanted {
                    format,
                    form,
                    pretty: clause.parameter("pretty") == Some("1"),
                });
            }
            None => miss = Miss::Parameters,
        }
    }
    Err(miss)
}

fn form(clause: &MediaType<'_>, with_forms: bool) -> Option<Form> {
    let Some(name) = clause.parameter("as") else {
        return Some(Form::Plain);
    };
    let version = match clause.parameter("v")? {
        "v1" => "meta.k8s.io/v1",
        "v1beta1" => "meta.k8s.io/v1beta1",
        _ => return None,
    };
    if !with_forms || clause.parameter("g") != Some("meta.k8s.io") {
        return None;
    }
    match name {
        "Table" => Some(Form::Table(version)),
        "PartialObjectMetadata" => Some(Form::Metadata(version)),
        "PartialObjectMetadataList" => Some(Form::MetadataList(version)),
        _ => None,
    }
}

/// The text of a header; empty if it is absent or no text.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .trim()
}

/// People read indented JSON, programs do not: `pretty` decides, and without it the name of the program.
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

fn unknown_type(offer: Offer, listed: bool) -> Refused {
    let mut message = format!(
        "406: Not Acceptable\n\nAvailable representations: {}",
        offer.accepted()
    );
    if listed {
        message.push_str(", ");
        message.push_str(offer.streams());
    }
    unfit(406, "NotAcceptable", message)
}

fn unfit(code: u16, reason: &str, message: String) -> Refused {
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
    fn check(accept: &str, expected: Result<(Format, Form), Miss>) {
        let chosen = choose(accept, ALL).map(|wanted| (wanted.format, wanted.form));
        assert_eq!(chosen, expected, "{accept}");
    }

    const ALL: Offer = Offer {
        forms: true,
        tables: true,
        ..Offer::DOCUMENT
    };
    const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    const BINARY_TABLE: &str = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";

    /// What a caller is told; empty if it gets what it wants.
    fn told(accept: &str, choose: impl Fn(&HeaderMap) -> Result<Wanted, Refused>) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        choose(&headers)
            .err()
            .map(|status| status.message)
            .unwrap_or_default()
    }

    #[test]
    fn json_is_what_is_written_unless_asked_otherwise() {
        for accept in [
            "",
            "*/*",
            "application/json",
            "application/json, */*",
            "text/html,application/json",
        ] {
            check(accept, Ok((Format::Json, Form::Plain)));
        }
        check("application/yaml", Ok((Format::Yaml, Form::Plain)));
        check("application/json;profile=x", Ok((Format::Json, Form::Plain)));
    }

    #[test]
    fn protobuf_is_written_where_the_kind_has_a_form() {
        let accept = "application/vnd.kubernetes.protobuf,application/json";
        check(accept, Ok((Format::Protobuf, Form::Plain)));
        check(METADATA, Ok((Format::Protobuf, Form::Metadata("meta.k8s.io/v1"))));
        let custom = Offer {
            protobuf: false,
            ..ALL
        };
        assert_eq!(choose(accept, custom), Ok(Wanted::JSON));
        assert_eq!(choose(media::PROTOBUF, custom), Err(Miss::Parameters));
        assert_eq!(choose(accept, Offer::JSON), Ok(Wanted::JSON));
    }

    #[test]
    fn tables_are_never_protobuf() {
        check(BINARY_TABLE, Err(Miss::Parameters));
        check(
            &format!("{BINARY_TABLE},application/json"),
            Ok((Format::Json, Form::Plain)),
        );
    }

    #[test]
    fn a_watch_is_json_or_protobuf() {
        let watched = |accept: &str| told(accept, |headers| watch(headers, ALL));
        assert_eq!(watched("application/vnd.kubernetes.protobuf;stream=watch"), "");
        assert_eq!(watched("application/yaml,application/json"), "");
        assert_eq!(
            watched("application/yaml"),
            "only the following media types are accepted: application/json;stream=watch, \
             application/vnd.kubernetes.protobuf;stream=watch"
        );
    }

    #[test]
    fn a_refusal_lists_what_there_is() {
        let asked = |accept: &str, listed: bool| {
            told(accept, |headers| {
                resource(headers, &Query::parse(None), ALL, listed)
            })
        };
        let all = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        let missing = "406: Not Acceptable\n\nAvailable representations:";
        assert_eq!(asked("bogus", false), format!("{missing} {all}"));
        assert_eq!(asked("bogus", true), format!("{missing} {all}, {streams}"));
        assert_eq!(
            asked(BINARY_TABLE, true),
            format!("only the following media types are accepted: {all}")
        );
    }

    #[test]
    fn a_document_that_is_found_as_resources_are_wants_its_type_named() {
        let asked = |name, value: &str, read: fn(&HeaderMap) -> Result<(), Refused>| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            read(&headers)
                .err()
                .map(|status| (status.code, status.message))
                .unwrap_or_default()
        };
        let routed = |headers: &HeaderMap| routed_document(headers, &Query::parse(None)).map(drop);
        let lists = |headers: &HeaderMap| document(headers, &Query::parse(None)).map(drop);
        let fine = (0, String::new());
        assert_eq!(asked(ACCEPT, "application/*", routed).0, 406);
        assert_eq!(asked(ACCEPT, "application/*", lists), fine);
        assert_eq!(asked(ACCEPT, media::YAML, routed), fine);
        assert_eq!(asked(ACCEPT, media::YAML, json_document).0, 406);
        assert_eq!(asked(CONTENT_TYPE, "text/plain", lists), fine);
        let unknown = (415, "415: Unsupported Media Type".to_owned());
        assert_eq!(asked(CONTENT_TYPE, "text/plain", routed), unknown);
        assert_eq!(asked(CONTENT_TYPE, media::YAML, json_document), unknown);
    }

    #[test]
    fn a_status_is_written_in_what_the_caller_reads() {
        let format = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            failure(&headers, &Query::parse(None)).format
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
            Ok((Format::Yaml, Form::Plain)),
        );
        check(
            "application/yaml;q=0.5,application/json;q=0.9",
            Ok((Format::Json, Form::Plain)),
        );
    }

    #[test]
    fn tables_and_metadata_are_forms() {
        check(TABLE, Ok((Format::Json, Form::Table("meta.k8s.io/v1"))));
        check(
            "application/yaml;as=Table;v=v1beta1;g=meta.k8s.io",
            Ok((Format::Yaml, Form::Table("meta.k8s.io/v1beta1"))),
        );
        check(
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            Ok((Format::Json, Form::MetadataList("meta.k8s.io/v1"))),
        );
    }

    #[test]
    fn a_clause_that_cannot_be_served_is_passed_over() {
        check(
            "application/json;as=Bogus;v=v1;g=meta.k8s.io,application/json",
            Ok((Format::Json, Form::Plain)),
        );
        check(
            "application/json;as=Table;v=v9;g=meta.k8s.io",
            Err(Miss::Parameters),
        );
    }

    #[test]
    fn unknown_types_are_refused() {
        for accept in ["text/plain", "application/*", "bogus", "application/cbor"] {
            check(accept, Err(Miss::Type));
        }
    }

    #[test]
    fn programs_for_people_get_indented_json() {
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

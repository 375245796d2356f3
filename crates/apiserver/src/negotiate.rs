//! Which form of an answer a caller wants, by its `Accept` header.
//!
//! Clauses are tried by falling quality. A clause that cannot be served is passed over, so
//! `application/json;as=Table;v=v1;g=meta.k8s.io,application/json` falls back to the plain object where there is no table.

use http::HeaderMap;
use http::header::{ACCEPT, USER_AGENT};
use setpoint_api::Status;
use setpoint_api::status::Details;
use setpoint_codec::media::MediaType;
use setpoint_codec::{media, protobuf};
use setpoint_kinds::Kind;

use crate::request::options::Refused;
use crate::request::query::Query;

/// What can be had of a resource or a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Whether there are tables and bare metadata.
    forms: bool,
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
    /// What discovery and the like are written in.
    const DOCUMENT: Self = Self {
        forms: false,
        yaml: true,
        protobuf: false,
    };
    /// What a status is written in.
    const STATUS: Self = Self {
        forms: false,
        yaml: true,
        protobuf: true,
    };

    /// What objects of a kind are read and written in.
    pub(crate) fn of(kind: &dyn Kind) -> Self {
        Self {
            forms: true,
            yaml: true,
            protobuf: protobuf::has_form(kind.shape()),
        }
    }

    /// The media types bodies may be written in, as refusals list them.
    pub(crate) fn accepted(self) -> &'static str {
        match self.protobuf {
            true => "application/json, application/yaml, application/vnd.kubernetes.protobuf",
            false => "application/json, application/yaml",
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
        match format {
            Format::Json => true,
            Format::Yaml => self.yaml,
            Format::Protobuf => self.protobuf && !matches!(form, Form::Table(_)),
        }
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

/// Reads what the caller wants of a document that has one form only, such as discovery.
pub(crate) fn document(headers: &HeaderMap, query: &Query<'_>) -> Result<Wanted, Refused> {
    let chosen = choose(header(headers, &ACCEPT), Offer::DOCUMENT);
    let mut wanted = chosen.map_err(|_| Box::new(Status::not_acceptable(Offer::STATUS.accepted())))?;
    wanted.pretty |= is_pretty(headers, query);
    Ok(wanted)
}

/// What errors are written in: what the caller reads if that is known, otherwise JSON.
pub(crate) fn failure(headers: &HeaderMap, query: &Query<'_>) -> Wanted {
    let mut wanted = choose(header(headers, &ACCEPT), Offer::STATUS).unwrap_or(Wanted::JSON);
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
    Box::new(Status {
        status: "Failure".to_owned(),
        message,
        reason: "NotAcceptable".to_owned(),
        details: Some(Details::default()),
        code: 406,
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
        ..Offer::STATUS
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
        assert_eq!(choose(accept, Offer::DOCUMENT), Ok(Wanted::JSON));
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

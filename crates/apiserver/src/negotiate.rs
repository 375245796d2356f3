//! Which form of an answer a caller wants, by its `Accept` header.
//!
//! Clauses are tried by falling quality. A clause that cannot be served is passed over, so
//! `application/json;as=Table;v=v1;g=meta.k8s.io,application/json` falls back to the plain object where there is no table.

use http::HeaderMap;
use http::header::{ACCEPT, USER_AGENT};
use setpoint_api::Status;
use setpoint_api::status::Details;

use crate::request::options::Refused;
use crate::request::query::Query;

/// The media types bodies may be written in.
pub(crate) const ACCEPTED: &str = "application/json, application/yaml";

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

/// Reads what the caller wants of a resource. `listed` says whether the collection's own forms are offered as well.
pub(crate) fn resource(headers: &HeaderMap, query: &Query<'_>, listed: bool) -> Result<Wanted, Refused> {
    let accept = header(headers, &ACCEPT);
    let mut wanted = choose(accept, true).map_err(|miss| match miss {
        Miss::Type => unknown_type(listed),
        Miss::Parameters => Box::new(Status::not_acceptable(ACCEPTED)),
    })?;
    wanted.pretty |= is_pretty(headers, query);
    Ok(wanted)
}

/// Reads what the caller wants of a watch, which is only ever sent as lines of JSON.
pub(crate) fn watch(headers: &HeaderMap) -> Result<Wanted, Refused> {
    match choose(header(headers, &ACCEPT), true) {
        Ok(wanted) if wanted.format == Format::Json => Ok(wanted),
        Err(Miss::Type) => Err(unknown_type(true)),
        _ => Err(Box::new(Status::not_acceptable("application/json;stream=watch"))),
    }
}

/// Reads what the caller wants of a document that has one form only, such as discovery.
pub(crate) fn document(headers: &HeaderMap, query: &Query<'_>) -> Result<Wanted, Refused> {
    let chosen = choose(header(headers, &ACCEPT), false);
    let mut wanted = chosen.map_err(|_| Box::new(Status::not_acceptable(ACCEPTED)))?;
    wanted.pretty |= is_pretty(headers, query);
    Ok(wanted)
}

/// What errors are written in: what the caller reads if that is known, otherwise JSON.
pub(crate) fn failure(headers: &HeaderMap, query: &Query<'_>) -> Wanted {
    let chosen = choose(header(headers, &ACCEPT), true).unwrap_or(Wanted::JSON);
    let format = if chosen.form == Form::Plain {
        chosen.format
    } else {
        Format::Json
    };
    Wanted {
        format,
        form: Form::Plain,
        pretty: chosen.pretty || is_pretty(headers, query),
    }
}

/// Why no clause could be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Miss {
    /// No clause names a media type that is served.
    Type,
    /// One does, but asks for something of it that is not there.
    Parameters,
}

fn choose(accept: &str, with_forms: bool) -> Result<Wanted, Miss> {
    if matches!(accept, "" | "*/*" | "application/json" | "application/json, */*") {
        return Ok(Wanted::JSON);
    }
    let mut clauses: Vec<(f32, &str)> = accept
        .split(',')
        .map(|clause| (quality(clause), clause))
        .collect();
    clauses.sort_by(|left, right| right.0.total_cmp(&left.0));
    let mut miss = Miss::Type;
    for (_, clause) in clauses {
        let (media_type, parameters) = clause.split_once(';').unwrap_or((clause, ""));
        let format = match media_type.trim() {
            "*/*" | "application/json" => Format::Json,
            "application/*" if !with_forms => Format::Json,
            "application/yaml" => Format::Yaml,
            _ => continue,
        };
        match form(parameters, with_forms) {
            Some(form) => {
                return Ok(Wanted {
                    format,
                    form,
                    pretty: parameter(parameters, "pretty") == Some("1"),
                });
            }
            None => miss = Miss::Parameters,
        }
    }
    Err(miss)
}

fn quality(clause: &str) -> f32 {
    parameter(clause, "q").and_then(|q| q.parse().ok()).unwrap_or(1.0)
}

fn form(parameters: &str, with_forms: bool) -> Option<Form> {
    let Some(name) = parameter(parameters, "as") else {
        return Some(Form::Plain);
    };
    let version = match parameter(parameters, "v")? {
        "v1" => "meta.k8s.io/v1",
        "v1beta1" => "meta.k8s.io/v1beta1",
        _ => return None,
    };
    if !with_forms || parameter(parameters, "g") != Some("meta.k8s.io") {
        return None;
    }
    match name {
        "Table" => Some(Form::Table(version)),
        "PartialObjectMetadata" => Some(Form::Metadata(version)),
        "PartialObjectMetadataList" => Some(Form::MetadataList(version)),
        _ => None,
    }
}

/// The value of a parameter behind a media type.
pub(crate) fn parameter<'a>(parameters: &'a str, name: &str) -> Option<&'a str> {
    parameters.split(';').find_map(|pair| {
        let (own, value) = pair.split_once('=')?;
        (own.trim() == name).then(|| value.trim().trim_matches('"'))
    })
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

fn unknown_type(listed: bool) -> Refused {
    let streams = if listed {
        ", application/json;stream=watch"
    } else {
        ""
    };
    let message = format!("406: Not Acceptable\n\nAvailable representations: {ACCEPTED}{streams}");
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
        let chosen = choose(accept, true).map(|wanted| (wanted.format, wanted.form));
        assert_eq!(chosen, expected, "{accept}");
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
    fn protobuf_first_and_json_second_gives_json() {
        check(
            "application/vnd.kubernetes.protobuf,application/json",
            Ok((Format::Json, Form::Plain)),
        );
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
            resource(&headers, &Query::parse(Some(query)), false)
                .unwrap()
                .pretty
        };
        assert!(pretty(""));
        assert!(pretty("pretty=true"));
        assert!(!pretty("pretty=false"));
        assert!(!pretty("pretty=x"));
    }
}

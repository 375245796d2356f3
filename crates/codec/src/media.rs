//! Media types: parsing of `Content-Type` and `Accept`, and content negotiation.
//!
//! No other module parses these headers. Nothing is copied: a media type borrows the header's text.

use setpoint_api::call::Encoding;

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// One media type of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaType<'a> {
    /// `application/json`, without parameters.
    pub essence: &'a str,
    /// The text after the first semicolon.
    parameters: &'a str,
}

impl<'a> MediaType<'a> {
    /// Parses one media type, as in a Content-Type header.
    pub fn parse(text: &'a str) -> Self {
        let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
        Self {
            essence: essence.trim(),
            parameters,
        }
    }

    /// The value of a parameter, such as `as` or `charset`, without its quotes.
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.split(';').find_map(|pair| {
            let (own, value) = pair.split_once('=')?;
            (own.trim() == name).then(|| value.trim().trim_matches('"'))
        })
    }

    /// The encoding of a body of this type; an absent type means JSON.
    pub fn encoding(&self) -> Option<Encoding> {
        let is = |essence: &str| self.essence.eq_ignore_ascii_case(essence);
        if self.essence.is_empty() || is(JSON) {
            Some(Encoding::Json)
        } else if is(YAML) {
            Some(Encoding::Yaml)
        } else if is(PROTOBUF) {
            Some(Encoding::Protobuf)
        } else {
            None
        }
    }

    /// Whether this clause of an Accept header matches a type, wildcards included.
    pub fn accepts(&self, essence: &str) -> bool {
        match self.essence.strip_suffix('*') {
            Some("*/") => true,
            Some(family) => essence.starts_with(family),
            None => self.essence == essence,
        }
    }

    /// The quality value `q`, from 0 to 1.
    fn quality(&self) -> f32 {
        self.parameter("q").and_then(|q| q.parse().ok()).unwrap_or(1.0)
    }
}

/// The clauses of an Accept header by descending quality, otherwise in header order. An empty header accepts anything.
pub fn parse_accept(accept: &str) -> Vec<MediaType<'_>> {
    let accept = if accept.trim().is_empty() { "*/*" } else { accept };
    let mut clauses: Vec<MediaType<'_>> = accept.split(',').map(MediaType::parse).collect();
    clauses.sort_by(|left, right| right.quality().total_cmp(&left.quality()));
    clauses
}

/// The supported type that the preferred clause accepts; of several, the first in `supported`.
pub fn negotiate<'o>(accept: &str, supported: &[&'o str]) -> Option<&'o str> {
    parse_accept(accept)
        .iter()
        .find_map(|clause| supported.iter().find(|one| clause.accepts(one)).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(accept: &str, expected: Option<&str>) {
        assert_eq!(negotiate(accept, &[JSON, YAML]), expected, "{accept}");
    }

    #[test]
    fn no_preference_is_json() {
        check("", Some(JSON));
        check("*/*", Some(JSON));
        check("application/*", Some(JSON));
    }

    #[test]
    fn the_supported_type_of_highest_quality_wins() {
        check("application/json;q=0.5,application/yaml", Some(YAML));
        check("application/vnd.kubernetes.protobuf,application/json", Some(JSON));
        check("application/json;q=0.1, application/yaml;q=0.2", Some(YAML));
        check("text/html", None);
        check("text/*", None);
    }

    #[test]
    fn parameters_are_read_without_quotes() {
        let media = MediaType::parse("application/json; as=Table;v=v1;g=\"meta.k8s.io\"; pretty=1;q=0.9");
        assert_eq!(media.essence, JSON);
        assert_eq!(media.parameter("as"), Some("Table"));
        assert_eq!(media.parameter("g"), Some("meta.k8s.io"));
        assert_eq!(media.parameter("stream"), None);
    }

    #[test]
    fn clauses_of_equal_quality_stay_in_order() {
        let found: Vec<&str> = parse_accept("a/b;q=0.5, c/d, e/f;q=0.5")
            .iter()
            .map(|one| one.essence)
            .collect();
        assert_eq!(found, ["c/d", "a/b", "e/f"]);
    }

    #[test]
    fn a_body_without_content_type_is_json() {
        assert_eq!(MediaType::parse("").encoding(), Some(Encoding::Json));
        assert_eq!(
            MediaType::parse("Application/JSON; charset=utf-8").encoding(),
            Some(Encoding::Json)
        );
        assert_eq!(
            MediaType::parse("application/yaml").encoding(),
            Some(Encoding::Yaml)
        );
        assert_eq!(MediaType::parse(PROTOBUF).encoding(), Some(Encoding::Protobuf));
        assert_eq!(MediaType::parse("text/plain").encoding(), None);
    }
}

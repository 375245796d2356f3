//! Media types: what a body is written in, and what a caller would like an answer to be written in.
//!
//! The only place where the headers `Content-Type` and `Accept` are taken apart. Nothing is copied: a media type is a
//! view of the header's text.

use setpoint_api::call::Encoding;

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// One media type as it stands in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaType<'a> {
    /// `application/json`, without parameters.
    pub essence: &'a str,
    /// Everything behind the first semicolon.
    parameters: &'a str,
}

impl<'a> MediaType<'a> {
    /// Reads one media type, as in a Content-Type header.
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

    /// What a body of this type is written in. No type at all means JSON.
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

    /// Whether this clause of an Accept header takes a type, wildcards included.
    pub fn takes(&self, essence: &str) -> bool {
        match self.essence.strip_suffix('*') {
            Some("*/") => true,
            Some(family) => essence.starts_with(family),
            None => self.essence == essence,
        }
    }

    /// How much it is wanted, from none to one.
    fn quality(&self) -> f32 {
        self.parameter("q").and_then(|q| q.parse().ok()).unwrap_or(1.0)
    }
}

/// The clauses of an Accept header, the most wanted first and otherwise as they stand. An empty header takes anything.
pub fn clauses(accept: &str) -> Vec<MediaType<'_>> {
    let accept = if accept.trim().is_empty() { "*/*" } else { accept };
    let mut clauses: Vec<MediaType<'_>> = accept.split(',').map(MediaType::parse).collect();
    clauses.sort_by(|left, right| right.quality().total_cmp(&left.quality()));
    clauses
}

/// The offer that the most wanted clause takes; of several, the first that is offered.
pub fn negotiate<'o>(accept: &str, offers: &[&'o str]) -> Option<&'o str> {
    clauses(accept)
        .iter()
        .find_map(|clause| offers.iter().find(|offer| clause.takes(offer)).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(accept: &str, expected: Option<&str>) {
        assert_eq!(negotiate(accept, &[JSON, YAML]), expected, "{accept}");
    }

    #[test]
    fn no_wish_is_json() {
        check("", Some(JSON));
        check("*/*", Some(JSON));
        check("application/*", Some(JSON));
    }

    #[test]
    fn the_most_wanted_that_is_offered_wins() {
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
    fn equally_wanted_clauses_stay_in_order() {
        let found: Vec<&str> = clauses("a/b;q=0.5, c/d, e/f;q=0.5")
            .iter()
            .map(|one| one.essence)
            .collect();
        assert_eq!(found, ["c/d", "a/b", "e/f"]);
    }

    #[test]
    fn a_body_is_json_unless_it_says_otherwise() {
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

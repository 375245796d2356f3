//! Media types: what a body is written in, and what a caller would like an answer to be written in.

use std::cmp::Reverse;

use compact_str::CompactString;
use setpoint_api::call::Encoding;

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// One media type with the parameters this API knows. Others are passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaType {
    /// `application/json`, in lower case and without parameters.
    pub essence: CompactString,
    /// The kind to turn the answer into, such as `Table`.
    pub r#as: Option<CompactString>,
    /// The group of that kind.
    pub g: Option<CompactString>,
    /// The version of that kind.
    pub v: Option<CompactString>,
    /// `watch` where a stream is meant.
    pub stream: Option<CompactString>,
    /// Whether people read it.
    pub pretty: bool,
    /// How much it is wanted, in thousandths.
    pub quality: u16,
}

impl MediaType {
    /// Reads one media type, as in a Content-Type header.
    pub fn parse(text: &str) -> Self {
        let mut parts = text.split(';');
        let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let mut media = MediaType {
            essence: essence.into(),
            quality: 1000,
            ..MediaType::default()
        };
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            media.set(name.trim(), value.trim().trim_matches('"'));
        }
        media
    }

    fn set(&mut self, name: &str, value: &str) {
        match name {
            "as" => self.r#as = Some(value.into()),
            "g" => self.g = Some(value.into()),
            "v" => self.v = Some(value.into()),
            "stream" => self.stream = Some(value.into()),
            "pretty" => self.pretty = value == "1" || value == "true",
            "q" => self.quality = quality(value),
            _ => {}
        }
    }

    /// What a body of this type is written in. No type at all means JSON.
    pub fn encoding(&self) -> Option<Encoding> {
        match self.essence.as_str() {
            "" | JSON => Some(Encoding::Json),
            YAML => Some(Encoding::Yaml),
            PROTOBUF => Some(Encoding::Protobuf),
            _ => None,
        }
    }

    /// Whether this clause of an Accept header takes a type, wildcards included.
    pub fn takes(&self, essence: &str) -> bool {
        match self.essence.as_str() {
            "*/*" => true,
            own => {
                own == essence
                    || own
                        .strip_suffix('*')
                        .is_some_and(|family| essence.starts_with(family))
            }
        }
    }
}

/// The clauses of an Accept header, the most wanted first. An empty header takes anything.
pub fn parse_accept(accept: &str) -> Vec<MediaType> {
    let accept = if accept.trim().is_empty() { "*/*" } else { accept };
    let clauses = accept.split(',').filter(|clause| !clause.trim().is_empty());
    let mut clauses: Vec<_> = clauses
        .map(MediaType::parse)
        .filter(|clause| clause.quality > 0)
        .collect();
    clauses.sort_by_key(|clause| Reverse(clause.quality));
    clauses
}

/// The first clause that takes one of the offers and that the caller can serve, with the offer it takes. A clause that
/// cannot be served is passed over, so a client may name what it would like best and then what it can live with.
pub fn negotiate<'a>(
    accept: &str,
    offers: &[&'a str],
    can_serve: impl Fn(&MediaType) -> bool,
) -> Option<(MediaType, &'a str)> {
    parse_accept(accept).into_iter().find_map(|clause| {
        let offer = offers.iter().find(|offer| clause.takes(offer))?;
        can_serve(&clause).then_some((clause, *offer))
    })
}

fn quality(value: &str) -> u16 {
    let share = value.parse::<f32>().unwrap_or(0.0).clamp(0.0, 1.0);
    (share * 1000.0) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(accept: &str, expected: Option<&str>) {
        let chosen = negotiate(accept, &[JSON, YAML], |clause| {
            clause.r#as.as_deref() != Some("Missing")
        });
        assert_eq!(chosen.map(|(_, offer)| offer), expected, "{accept}");
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
        check("application/json;q=0, application/yaml;q=0.1", Some(YAML));
        check("text/html", None);
    }

    #[test]
    fn a_clause_that_cannot_be_served_is_passed_over() {
        check(
            "application/json;as=Missing;v=v1;g=meta.k8s.io,application/yaml",
            Some(YAML),
        );
    }

    #[test]
    fn parameters_are_read_and_unknown_ones_passed_over() {
        let media = MediaType::parse(
            "Application/JSON; as=Table;v=v1;g=meta.k8s.io; pretty=1;stream=watch;x=y;q=0.9",
        );
        assert_eq!(media.essence, JSON);
        assert_eq!(
            (media.r#as.as_deref(), media.v.as_deref()),
            (Some("Table"), Some("v1"))
        );
        assert_eq!(
            (media.g.as_deref(), media.stream.as_deref()),
            (Some("meta.k8s.io"), Some("watch"))
        );
        assert_eq!((media.pretty, media.quality), (true, 900));
    }

    #[test]
    fn a_body_is_json_unless_it_says_otherwise() {
        assert_eq!(MediaType::parse("").encoding(), Some(Encoding::Json));
        assert_eq!(
            MediaType::parse("application/json; charset=utf-8").encoding(),
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

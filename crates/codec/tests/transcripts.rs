//! Every body that kube-apiserver rejected while decoding, as recorded, is rejected here with the same message.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use serde_json::Value;
use setpoint_api::call::Encoding;
use setpoint_codec::media::MediaType;
use setpoint_codec::{FieldValidation, decode};
use setpoint_schema::{Pack, Shape};

/// Named types of single fields that no published schema distinguishes from a plain string.
const UNPUBLISHED_TYPES: [&str; 1] = ["v1.SecretType"];

/// The recorded steps of some areas, each with the id of its case.
fn steps(areas: &[&str]) -> Vec<(String, Value)> {
    let cases = areas.iter().flat_map(|area| {
        let text = setpoint_reference::transcript(area);
        text.lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .collect::<Vec<_>>()
    });
    cases
        .flat_map(|case| {
            let id = case["id"].as_str().unwrap().to_string();
            case["steps"]
                .as_array()
                .unwrap()
                .clone()
                .into_iter()
                .map(move |step| (id.clone(), step))
        })
        .collect()
}

/// The body that a step sends to a built-in resource, and how it is decoded.
struct SentBody<'a> {
    body: &'a str,
    encoding: Encoding,
    shape: &'static Shape,
    validation: FieldValidation,
}

fn sent_body(step: &Value) -> Option<SentBody<'_>> {
    let method = step["method"].as_str()?;
    let body = step["body"].as_str()?;
    let (path, query) = step["path"]
        .as_str()?
        .split_once('?')
        .unwrap_or((step["path"].as_str()?, ""));
    if !matches!(method, "POST" | "PUT") || body.contains("{{") {
        return None;
    }
    let content_type = step["headers"]["Content-Type"].as_str().unwrap_or_default();
    let encoding = MediaType::parse(content_type)
        .encoding()
        .filter(|known| *known != Encoding::Protobuf)?;
    let validation = match query {
        query if query.contains("fieldValidation=Strict") => FieldValidation::Strict,
        query if query.contains("fieldValidation=Ignore") => FieldValidation::Ignore,
        _ => FieldValidation::Warn,
    };
    Some(SentBody {
        body,
        encoding,
        shape: shape_of(path)?,
        validation,
    })
}

/// The shape a path takes: the kind whose plural is the collection's name.
fn shape_of(path: &str) -> Option<&'static Shape> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    match rest {
        [_, _, "scale"] => Pack::builtin().shape_of("autoscaling", "v1", "Scale"),
        [plural] | [plural, _] => {
            let found = Pack::builtin()
                .kinds()
                .find(|(gvk, _)| gvk[0] == group && gvk[1] == version && is_plural(gvk[2], plural));
            found.map(|(_, id)| Pack::builtin().shape(id))
        }
        _ => None,
    }
}

fn is_plural(kind: &str, plural: &str) -> bool {
    let kind = kind.to_lowercase();
    [format!("{kind}s"), format!("{kind}es"), kind.clone()]
        .iter()
        .any(|known| known == plural)
        || kind
            .strip_suffix('y')
            .is_some_and(|stem| format!("{stem}ies") == plural)
}

#[test]
fn decoding_errors_have_the_same_messages() {
    let mut compared = 0;
    for (id, step) in steps(&["strict", "validation", "http", "update"]) {
        let message = step["expect"]["body"]["message"].as_str().unwrap_or_default();
        let decoding = ["cannot be handled as", "object provided is unrecognized"]
            .iter()
            .any(|part| message.contains(part));
        let Some(sent) = sent_body(&step).filter(|_| decoding) else {
            continue;
        };
        if UNPUBLISHED_TYPES.iter().any(|name| message.ends_with(name)) {
            continue;
        }
        let error = decode(sent.body.as_bytes(), sent.encoding, sent.shape, sent.validation);
        let error = error.map(|decoded| decoded.warnings).expect_err(&id);
        assert_eq!(error.to_string(), message, "{id}");
        compared += 1;
    }
    assert!(compared > 150, "only {compared} errors were compared");
}

#[test]
fn decoding_warnings_have_the_same_messages_and_other_bodies_are_accepted() {
    let mut compared = 0;
    for (id, step) in steps(&["strict", "kinds", "update"]) {
        let Some(sent) = sent_body(&step).filter(|_| step["expect"]["status"].as_u64() == Some(201)) else {
            continue;
        };
        let decoded = decode(sent.body.as_bytes(), sent.encoding, sent.shape, sent.validation);
        let decoded = decoded.unwrap_or_else(|error| panic!("{id}: {error}"));
        let header = |text: &String| format!("299 - {text:?}");
        let given: Vec<String> = decoded.warnings.iter().map(header).collect();
        let known = step["expect"]["headers"]["Warning"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let known: Vec<String> = known
            .iter()
            .map(|text| text.as_str().unwrap().to_string())
            .collect();
        let about_fields = |text: &&String| text.contains(" field ") || text.contains("already set");
        assert_eq!(
            given,
            known.iter().filter(about_fields).cloned().collect::<Vec<_>>(),
            "{id}"
        );
        compared += 1;
    }
    assert!(compared > 400, "only {compared} answers were compared");
}

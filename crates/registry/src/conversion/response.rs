//! The response of a conversion webhook: a ConversionReview in the version of the request.

use setpoint_codec::json;
use setpoint_schema::{Tree, fields};

const KIND: &str = "ConversionReview";

/// A version of ConversionReview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    /// Its responses need neither a type nor the uid of the request.
    V1beta1,
}

impl ReviewVersion {
    const ALL: [Self; 2] = [Self::V1, Self::V1beta1];

    /// The first version that this server knows.
    pub(super) fn best_of(names: &[String]) -> Option<Self> {
        let known = |name: &String| Self::ALL.into_iter().find(|version| version.name() == name);
        names.iter().find_map(known)
    }

    pub(super) fn api_version(self) -> String {
        format!("apiextensions.k8s.io/{}", self.name())
    }

    fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1beta1 => "v1beta1",
        }
    }
}

/// Decodes the body of a response.
pub(super) fn decode(body: &[u8], version: ReviewVersion) -> Result<Tree, String> {
    if body.is_empty() {
        return Err("0-length response with status code: 200 and content type: application/json".to_owned());
    }
    let review = match json::parse(body) {
        Ok(review @ (Tree::Map(_) | Tree::Null)) => review,
        Ok(other) => return Err(not_an_object(other.type_name())),
        // Kubernetes reads it as YAML then, in which most texts are strings.
        Err(_) if !body.trim_ascii_start().starts_with(b"{") => return Err(not_an_object("string")),
        Err(error) => {
            return Err(format!("couldn't get version/kind; json parse error: {error}"));
        }
    };
    check_review_type(&review, version)?;
    Ok(review)
}

fn not_an_object(found: &str) -> String {
    let expected = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type {expected}"
    )
}

/// A response without a type is taken for the expected one here.
fn check_review_type(review: &Tree, version: ReviewVersion) -> Result<(), String> {
    let text = |field: &str| review.str_at(&[field]).unwrap_or_default();
    let (api_version, kind) = (text(fields::API_VERSION), text(fields::KIND));
    if kind.is_empty() && !api_version.is_empty() {
        return Err(missing_kind(review));
    }
    let is_empty = kind.is_empty() && api_version.is_empty();
    if is_empty || (kind == KIND && api_version == version.api_version()) {
        return Ok(());
    }
    let mut others = ReviewVersion::ALL.into_iter();
    match others.find(|other| kind == KIND && api_version == other.api_version()) {
        Some(other) => Err(format!(
            "converting ({}.{KIND}) to ({}.{KIND}): unknown conversion",
            other.name(),
            version.name()
        )),
        None => Err(format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"k8s.io/apiserver/pkg/util/webhook/client.go:74\""
        )),
    }
}

/// The converted objects of a successful response.
pub(super) fn converted_objects(
    mut review: Tree,
    version: ReviewVersion,
    uid: &str,
) -> Result<Vec<Tree>, String> {
    let text = |path: &[&str]| review.str_at(path).unwrap_or_default().to_owned();
    if version == ReviewVersion::V1 && text(&[fields::KIND]).is_empty() {
        return Err(format!(
            "expected webhook response of {}, Kind={KIND}, got /, Kind=",
            version.api_version()
        ));
    }
    if review.get(fields::RESPONSE).is_none_or(Tree::is_null) {
        return Err("no response provided".to_owned());
    }
    let found = text(&[fields::RESPONSE, fields::UID]);
    if version == ReviewVersion::V1 && found != uid {
        return Err(format!("expected response.uid={uid:?}, got {found:?}"));
    }
    let status = text(&[fields::RESPONSE, fields::RESULT, fields::STATUS]);
    if status != "Success" {
        let message = text(&[fields::RESPONSE, fields::RESULT, fields::MESSAGE]);
        return Err(match message.is_empty() {
            false => message,
            true => format!("response.result.status was '{status}', not 'Success'"),
        });
    }
    match review.take(&[fields::RESPONSE, fields::CONVERTED_OBJECTS]) {
        Some(Tree::List(objects)) => Ok(objects),
        _ => Ok(Vec::new()),
    }
}

/// Checks that an item of the response is an object with a kind.
pub(super) fn check_type(object: &Tree) -> Result<(), String> {
    match object {
        Tree::Map(_) if object.str_at(&[fields::KIND]).is_none_or(str::is_empty) => Err(missing_kind(object)),
        Tree::Map(_) => Ok(()),
        Tree::Null => Err("unexpected end of JSON input".to_owned()),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            other.type_name()
        )),
    }
}

fn missing_kind(object: &Tree) -> String {
    let shown = json::write(object);
    format!(
        "Object 'Kind' is missing in '{}'",
        String::from_utf8_lossy(&shown)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "11";

    /// The number of converted objects of a response, or its error.
    #[track_caller]
    fn check(version: ReviewVersion, response: &str, expected: Result<usize, &str>) {
        let review = decode(response.as_bytes(), version);
        let objects = review.and_then(|review| converted_objects(review, version, UID));
        let outcome = objects.map(|objects| objects.len());
        assert_eq!(outcome, expected.map_err(str::to_owned), "{response}");
    }

    fn review(version: &str, response: &str) -> String {
        format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/{version}","kind":"ConversionReview","response":{response}}}"#
        )
    }

    #[test]
    fn the_first_known_review_version_is_used() {
        let best = |names: &[&str]| {
            ReviewVersion::best_of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(best(&["v2", "v1beta1", "v1"]), Some(ReviewVersion::V1beta1));
        assert_eq!(best(&["v1", "v1beta1"]), Some(ReviewVersion::V1));
        assert_eq!(best(&["v2"]), None);
    }

    #[test]
    fn a_response_has_the_uid_of_its_request_and_a_result() {
        use ReviewVersion::V1;
        let success = r#"{"uid":"11","result":{"status":"Success"},"convertedObjects":[{},{}]}"#;
        check(V1, &review("v1", success), Ok(2));
        check(
            V1,
            &review("v1", r#"{"uid":"12","result":{"status":"Success"}}"#),
            Err(r#"expected response.uid="11", got "12""#),
        );
        check(
            V1,
            &review(
                "v1",
                r#"{"uid":"11","result":{"status":"Failure","message":"no"}}"#,
            ),
            Err("no"),
        );
        check(
            V1,
            &review("v1", r#"{"uid":"11"}"#),
            Err("response.result.status was '', not 'Success'"),
        );
        check(V1, &review("v1", "null"), Err("no response provided"));
        check(
            V1,
            &review("v1", r#"{"uid":"11","result":{"status":"Success"}}"#),
            Ok(0),
        );
    }

    #[test]
    fn a_response_is_a_review_of_the_requested_version() {
        use ReviewVersion::{V1, V1beta1};
        let success = r#"{"result":{"status":"Success"},"convertedObjects":[{}]}"#;
        check(V1beta1, &review("v1beta1", success), Ok(1));
        check(V1beta1, &format!(r#"{{"response":{success}}}"#), Ok(1));
        check(
            V1,
            &format!(r#"{{"response":{success}}}"#),
            Err("expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind="),
        );
        check(
            V1,
            &review("v1beta1", success),
            Err("converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion"),
        );
        check(
            V1,
            r#"{"apiVersion":"v1","kind":"Pod"}"#,
            Err(
                r#"no kind "Pod" is registered for version "v1" in scheme "k8s.io/apiserver/pkg/util/webhook/client.go:74""#,
            ),
        );
    }

    #[test]
    fn a_response_that_is_no_json_object_is_an_error() {
        use ReviewVersion::V1;
        let into = r#"into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        for (body, found) in [("hello", "string"), ("[]", "array"), ("7", "number")] {
            let expected =
                format!("couldn't get version/kind; json parse error: json: cannot unmarshal {found} {into}");
            check(V1, body, Err(&expected));
        }
        check(
            V1,
            "",
            Err("0-length response with status code: 200 and content type: application/json"),
        );
    }
}

//! Tests of reviews. The expected responses are what shell-operator sends.

use super::*;

const ADMISSION: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":{"n":1.0}}}"#;
const CONVERSION: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"a/v2","objects":[{"apiVersion":"a/v1","n":1.0},{"apiVersion":"a/v1"}]}}"#;

fn text(bytes: Result<Vec<u8>, String>) -> String {
    String::from_utf8(bytes.unwrap()).unwrap()
}

/// The response to an admission review whose hook has written this file.
#[track_caller]
fn check(file: &str, expected: &str) {
    let review = Review::parse(ADMISSION.as_bytes()).unwrap();
    let responses = HookResponses::parse(file.as_bytes(), b"").unwrap();
    let response = text(review.respond(&responses.admission.unwrap()));
    let expected =
        format!(r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{expected}}}"#);
    assert_eq!(response, expected);
}

/// TO8
#[test]
fn an_admission_response_has_what_the_hook_has_written() {
    check(r#"{"allowed":true}"#, r#"{"uid":"u","allowed":true}"#);
    check(
        "{\"allowed\":false, \"message\":\"no\"}\n",
        r#"{"uid":"u","allowed":false,"status":{"metadata":{},"message":"no","code":403}}"#,
    );
    check(
        r#"{"allowed":true,"patch":"W10=","warnings":["a","b"]}"#,
        r#"{"uid":"u","allowed":true,"patch":"W10=","patchType":"JSONPatch","warnings":["a","b"]}"#,
    );
}

#[test]
fn a_request_is_passed_on_as_it_was_sent() {
    let review = Review::parse(ADMISSION.as_bytes()).unwrap();
    assert_eq!(&*review.request, r#"{"uid":"u","object":{"n":1.0}}"#);
    let review = ConversionReview::parse(CONVERSION.as_bytes()).unwrap();
    assert_eq!(review.request.versions(), ["a/v1"]);
    let expected = r#"{"uid":"u","desiredAPIVersion":"a/v2","objects":[{"apiVersion":"a/v1","n":1.0},{"apiVersion":"a/v1"}]}"#;
    assert_eq!(&*review.request.to_json().unwrap(), expected);
}

#[test]
fn a_conversion_response_has_the_objects_or_the_reason() {
    let review = ConversionReview::parse(CONVERSION.as_bytes()).unwrap();
    let file = br#"{"convertedObjects":[{"n":1.0}]}"#;
    let responses = HookResponses::parse(b"", file).unwrap();
    let objects = responses.conversion.unwrap().converted_objects.unwrap();
    let envelope = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":"#;
    assert_eq!(
        text(review.respond(Ok(&objects))),
        format!(
            r#"{envelope}{{"uid":"u","convertedObjects":[{{"n":1.0}}],"result":{{"metadata":{{}},"status":"Success"}}}}}}"#
        )
    );
    assert_eq!(
        text(review.respond(Err("no"))),
        format!(
            r#"{envelope}{{"uid":"u","convertedObjects":[],"result":{{"metadata":{{}},"status":"Failure","message":"no"}}}}}}"#
        )
    );
}

#[test]
fn an_empty_file_is_no_response_and_an_invalid_one_is_an_error() {
    let responses = HookResponses::parse(b"", b"\n").unwrap();
    assert!(responses.admission.is_none() && responses.conversion.is_none());
    let error = HookResponses::parse(b"yes", b"").unwrap_err();
    assert!(error.starts_with("got bad validating response: "), "{error}");
    let error = HookResponses::parse(b"", b"[]x").unwrap_err();
    assert!(error.starts_with("got bad conversion response: "), "{error}");
}

#[test]
fn a_review_without_a_request_is_rejected() {
    assert_eq!(Review::parse(b"{").unwrap_err(), "Invalid JSON payload");
    assert_eq!(Review::parse(b"{}").unwrap_err(), "Missing parameters: request");
}

//! DeleteOptions, row by row.

use super::*;

/// The error's code and message; empty on success.
fn error(query: &str, body: Option<&str>) -> String {
    let payload = body.map(|text| Payload::json(text.to_owned()));
    let status = read(&Query::parse(Some(query)), payload.as_ref()).err();
    status
        .map(|status| format!("{} {}", status.code, status.message))
        .unwrap_or_default()
}

#[track_caller]
fn check(query: &str, body: Option<&str>, expected: &str) {
    assert_eq!(error(query, body), expected);
}

#[test]
fn a_null_body_has_no_options() {
    check_propagation("", Some("null"), None);
}

#[track_caller]
fn check_propagation(query: &str, body: Option<&str>, expected: Option<DeletionPropagation>) {
    let payload = body.map(|text| Payload::json(text.to_owned()));
    assert_eq!(
        read(&Query::parse(Some(query)), payload.as_ref())
            .unwrap()
            .propagation_policy,
        expected
    );
}

const INVALID: &str = "422 DeleteOptions.meta.k8s.io \"\" is invalid: ";

#[test]
fn options_come_from_the_body_or_the_query() {
    let body = r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":7,"preconditions":{"uid":"u","resourceVersion":"5"}}"#;
    let options = read(
        &Query::parse(Some("gracePeriodSeconds=1")),
        Some(&Payload::json(body)),
    )
    .unwrap();
    assert_eq!(options.grace_period_seconds, Some(7));
    assert_eq!(
        (options.uid.as_deref(), options.resource_version.as_deref()),
        (Some("u"), Some("5"))
    );
    let options = read(&Query::parse(Some("gracePeriodSeconds=1&dryRun=All")), None).unwrap();
    assert_eq!((options.grace_period_seconds, options.dry_run), (Some(1), true));
}

#[test]
fn propagation_is_a_policy_or_orphan_dependents() {
    check_propagation(
        "propagationPolicy=Foreground",
        None,
        Some(DeletionPropagation::Foreground),
    );
    check_propagation(
        "",
        Some(r#"{"propagationPolicy":"Background"}"#),
        Some(DeletionPropagation::Background),
    );
    check_propagation("orphanDependents=true", None, Some(DeletionPropagation::Orphan));
    check_propagation(
        "orphanDependents=false",
        None,
        Some(DeletionPropagation::Background),
    );
    check_propagation("", None, None);
}

#[test]
fn unknown_policies_are_rejected() {
    let unsupported = |value: &str| {
        format!(
            "{INVALID}propagationPolicy: Unsupported value: {value:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
        )
    };
    check("propagationPolicy=Bogus", None, &unsupported("Bogus"));
    check("propagationPolicy=", None, &unsupported(""));
    check("", Some(r#"{"propagationPolicy":"X"}"#), &unsupported("X"));
}

#[test]
fn a_policy_with_orphan_dependents_is_rejected() {
    let both = "orphanDependents and deletionPropagation cannot be both set";
    check(
        "propagationPolicy=Orphan&orphanDependents=true",
        None,
        &format!("{INVALID}propagationPolicy: Invalid value: \"Orphan\": {both}"),
    );
}

#[test]
fn invalid_values_are_rejected() {
    check(
        "gracePeriodSeconds=x",
        None,
        "400 strconv.ParseInt: parsing \"x\": invalid syntax",
    );
    check(
        "dryRun=Some",
        None,
        &format!("{INVALID}dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""),
    );
}

#[test]
fn the_option_for_unreadable_objects_excludes_all_others() {
    let option = "ignoreStoreReadErrorWithClusterBreakingPotential";
    let with = |other: &str| format!(r#"{{"{option}":true,{other}}}"#);
    let conflict =
        |other: &str| format!("{INVALID}{option}: Invalid value: true: cannot be set together with .{other}");
    check(
        "",
        Some(&with(r#""gracePeriodSeconds":0"#)),
        &conflict("gracePeriodSeconds"),
    );
    check(
        "",
        Some(&with(r#""preconditions":{}"#)),
        &conflict("preconditions"),
    );
    check(
        "",
        Some(&with(r#""propagationPolicy":"Orphan""#)),
        &conflict("propagationPolicy"),
    );
    check(
        "",
        Some(&with(r#""orphanDependents":true"#)),
        &conflict("orphanDependents"),
    );
    let query = format!("{option}=true");
    assert!(
        read(&Query::parse(Some(&query)), None)
            .unwrap()
            .ignore_store_read_error
    );
    assert_eq!(
        read_collection(&Query::parse(Some(&query)), None)
            .unwrap_err()
            .code,
        422
    );
}

#[test]
fn a_body_of_another_kind_is_rejected() {
    assert!(
        error("", Some(r#"{"apiVersion":"v1","kind":"Bogus"}"#))
            .starts_with("400 no kind \"Bogus\" is registered")
    );
    assert!(error("", Some(r#"{"x"#)).starts_with("400 couldn't get version/kind; json parse error:"));
}

#[test]
fn options_may_be_protobuf() {
    let shape = Pack::builtin().shape_of("", "v1", "DeleteOptions").unwrap();
    let read_as = |json: &str| {
        let tree = setpoint_codec::json::parse(json.as_bytes()).unwrap();
        let payload = Payload {
            encoding: Encoding::Protobuf,
            bytes: protobuf::encode_object(shape, &tree).into(),
        };
        read(&Query::parse(Some("gracePeriodSeconds=1")), Some(&payload))
    };
    let options = read_as(
        r#"{"kind":"DeleteOptions","apiVersion":"apps/v1","gracePeriodSeconds":0,"propagationPolicy":"Foreground","dryRun":["All"],"preconditions":{"uid":"u"}}"#,
    )
    .unwrap();
    assert_eq!(
        (
            options.grace_period_seconds,
            options.propagation_policy,
            options.dry_run
        ),
        (Some(0), Some(DeletionPropagation::Foreground), true)
    );
    assert_eq!(options.uid.as_deref(), Some("u"));
    assert_eq!(
        read_as(r#"{"kind":"DeleteOptions","apiVersion":"v1"}"#)
            .unwrap()
            .grace_period_seconds,
        None
    );
    let rejected = read_as(r#"{"kind":"Pod","apiVersion":"v1"}"#).unwrap_err();
    assert!(
        rejected.message.starts_with("no kind \"Pod\" is registered"),
        "{}",
        rejected.message
    );
    let garbage = Payload {
        encoding: Encoding::Protobuf,
        bytes: "garbage".into(),
    };
    assert_eq!(read(&Query::parse(None), Some(&garbage)).unwrap_err().code, 400);
}

#[test]
fn a_body_of_another_type_has_kubernetes_error() {
    let unmarshal = |rest: &str| format!("400 json: cannot unmarshal {rest}");
    let options = r#"{"preconditions":{"uid":1}}"#;
    let expected = unmarshal("number into Go struct field Preconditions.preconditions.uid of type types.UID");
    check("", Some(options), &expected);
    let expected = unmarshal("string into Go struct field DeleteOptions.gracePeriodSeconds of type int64");
    check("", Some(r#"{"gracePeriodSeconds":"x"}"#), &expected);
    let typed = "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
    check("", Some("[]"), &format!("400 {typed}"));
}

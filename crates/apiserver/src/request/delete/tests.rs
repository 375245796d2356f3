//! Options of deletions, row by row.

use super::*;

/// What a caller is told; empty if nothing is wrong.
fn told(query: &str, body: Option<&str>) -> String {
    let payload = body.map(|text| Payload::json(text.to_owned()));
    let refused = read(&Query::parse(Some(query)), payload.as_ref()).err();
    refused
        .map(|status| format!("{} {}", status.code, status.message))
        .unwrap_or_default()
}

#[track_caller]
fn check(query: &str, body: Option<&str>, expected: &str) {
    assert_eq!(told(query, body), expected);
}

#[track_caller]
fn check_propagation(query: &str, body: Option<&str>, expected: Option<Propagation>) {
    let payload = body.map(|text| Payload::json(text.to_owned()));
    assert_eq!(
        read(&Query::parse(Some(query)), payload.as_ref())
            .unwrap()
            .propagation,
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
fn propagation_is_a_policy_or_the_older_word() {
    check_propagation(
        "propagationPolicy=Foreground",
        None,
        Some(Propagation::Foreground),
    );
    check_propagation(
        "",
        Some(r#"{"propagationPolicy":"Background"}"#),
        Some(Propagation::Background),
    );
    check_propagation("orphanDependents=true", None, Some(Propagation::Orphan));
    check_propagation("orphanDependents=false", None, Some(Propagation::Background));
    check_propagation("", None, None);
}

#[test]
fn unknown_policies_are_refused() {
    let told = |value: &str| {
        format!(
            "{INVALID}propagationPolicy: Unsupported value: {value:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
        )
    };
    check("propagationPolicy=Bogus", None, &told("Bogus"));
    check("propagationPolicy=", None, &told(""));
    check("", Some(r#"{"propagationPolicy":"X"}"#), &told("X"));
}

#[test]
fn both_words_at_once_are_refused() {
    let both = "orphanDependents and deletionPropagation cannot be both set";
    check(
        "propagationPolicy=Orphan&orphanDependents=true",
        None,
        &format!("{INVALID}propagationPolicy: Invalid value: \"Orphan\": {both}"),
    );
}

#[test]
fn bad_values_are_refused() {
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
fn of_what_cannot_be_read_nothing_else_can_be_asked() {
    let option = "ignoreStoreReadErrorWithClusterBreakingPotential";
    let with = |other: &str| format!(r#"{{"{option}":true,{other}}}"#);
    let refused =
        |other: &str| format!("{INVALID}{option}: Invalid value: true: cannot be set together with .{other}");
    check(
        "",
        Some(&with(r#""gracePeriodSeconds":0"#)),
        &refused("gracePeriodSeconds"),
    );
    check(
        "",
        Some(&with(r#""preconditions":{}"#)),
        &refused("preconditions"),
    );
    check(
        "",
        Some(&with(r#""propagationPolicy":"Orphan""#)),
        &refused("propagationPolicy"),
    );
    check(
        "",
        Some(&with(r#""orphanDependents":true"#)),
        &refused("orphanDependents"),
    );
    let query = format!("{option}=true");
    assert!(read(&Query::parse(Some(&query)), None).unwrap().unreadable_only);
    assert_eq!(
        read_collection(&Query::parse(Some(&query)), None)
            .unwrap_err()
            .code,
        422
    );
}

#[test]
fn a_body_of_another_kind_is_refused() {
    assert!(
        told("", Some(r#"{"apiVersion":"v1","kind":"Bogus"}"#))
            .starts_with("400 no kind \"Bogus\" is registered")
    );
    assert!(told("", Some(r#"{"x"#)).starts_with("400 couldn't get version/kind; json parse error:"));
}

#[test]
fn options_may_be_written_in_protobuf() {
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
        (options.grace_period_seconds, options.propagation, options.dry_run),
        (Some(0), Some(Propagation::Foreground), true)
    );
    assert_eq!(options.uid.as_deref(), Some("u"));
    assert_eq!(
        read_as(r#"{"kind":"DeleteOptions","apiVersion":"v1"}"#)
            .unwrap()
            .grace_period_seconds,
        None
    );
    let refused = read_as(r#"{"kind":"Pod","apiVersion":"v1"}"#).unwrap_err();
    assert!(
        refused.message.starts_with("no kind \"Pod\" is registered"),
        "{}",
        refused.message
    );
    let garbage = Payload {
        encoding: Encoding::Protobuf,
        bytes: "garbage".into(),
    };
    assert_eq!(read(&Query::parse(None), Some(&garbage)).unwrap_err().code, 400);
}

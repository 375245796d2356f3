//! Options and their errors, row by row.

use super::*;

/// The error's code and message; empty on success.
fn error<T>(read: Result<T, StatusError>) -> String {
    read.err()
        .map(|status| format!("{} {}", status.code, status.message))
        .unwrap_or_default()
}

#[track_caller]
fn check_list(query: &str, expected: &str) {
    assert_eq!(error(list(&Query::parse(Some(query)))), expected, "{query}");
}

#[track_caller]
fn check_watch(query: &str, expected: &str) {
    let url = format!("watch=true&{query}");
    let parsed = Query::parse(Some(&url));
    let version = watch(&parsed, Duration::ZERO).and_then(|_| watch_version(&parsed));
    assert_eq!(error(version), expected, "{query}");
}

#[track_caller]
fn check_write(query: &str, expected: &str) {
    assert_eq!(
        error(write(&Query::parse(Some(query)), "CreateOptions", "")),
        expected,
        "{query}"
    );
}

const LIST: &str = "422 ListOptions.meta.k8s.io \"\" is invalid: ";

#[test]
fn a_list_has_selectors_and_a_limit() {
    let query = Query::parse(Some(
        "labelSelector=a%3Db&fieldSelector=metadata.name%3Dx&limit=5&continue=c&resourceVersion=7&resourceVersionMatch=Exact",
    ));
    assert_eq!(
        error(list(&query)),
        format!(
            "{LIST}resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"
        )
    );
    let query = Query::parse(Some(
        "labelSelector=a%3Db&limit=5&resourceVersion=7&resourceVersionMatch=Exact",
    ));
    let options = list(&query).unwrap();
    assert_eq!(options.labels, LabelSelector::equals("a", "b"));
    assert_eq!(
        (options.limit, options.resource_version),
        (Some(5), Some(ResourceVersion(7)))
    );
    assert_eq!(options.resource_version_match, Some(ResourceVersionMatch::Exact));
}

#[test]
fn no_options_select_everything() {
    let options = list(&Query::parse(None)).unwrap();
    assert_eq!(
        (options.limit, options.continue_token, options.resource_version),
        (None, None, None)
    );
    assert_eq!(list(&Query::parse(Some("limit=0"))).unwrap().limit, None);
    assert_eq!(list(&Query::parse(Some("limit=-3"))).unwrap().limit, None);
}

#[test]
fn numbers_must_be_numbers() {
    check_list("limit=x", "400 strconv.ParseInt: parsing \"x\": invalid syntax");
    check_list("limit=", "400 strconv.ParseInt: parsing \"\": invalid syntax");
    check_list(
        "limit=99999999999999999999",
        "400 strconv.ParseInt: parsing \"99999999999999999999\": value out of range",
    );
    check_watch(
        "timeoutSeconds=x",
        "400 strconv.ParseInt: parsing \"x\": invalid syntax",
    );
}

#[test]
fn a_resource_version_must_be_a_number() {
    let invalid = |text: &str| {
        format!(
            "400 invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        )
    };
    check_list("resourceVersion=abc", &invalid("abc"));
    check_list("resourceVersion=-1", &invalid("-1"));
    check_list("resourceVersion=%2B1", &invalid("+1"));
    check_list(
        "resourceVersion=abc&resourceVersionMatch=NotOlderThan",
        &invalid("abc"),
    );
    let start =
        "500 resourceVersion: Invalid value: \"-1\": strconv.ParseUint: parsing \"-1\": invalid syntax";
    check_watch("resourceVersion=-1", start);
}

#[test]
fn selectors_must_be_valid() {
    check_list(
        "labelSelector=a%20b",
        "400 unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
    );
    check_list(
        "fieldSelector=bogus",
        "400 invalid selector: 'bogus'; can't understand 'bogus'",
    );
}

#[test]
fn contradicting_list_options_are_rejected() {
    let unless = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
    let bogus = "resourceVersionMatch: Unsupported value: \"Bogus\": supported values: \"Exact\", \"NotOlderThan\", \"\"";
    check_list("resourceVersionMatch=NotOlderThan", &format!("{LIST}{unless}"));
    check_list(
        "resourceVersionMatch=Bogus",
        &format!("{LIST}[{unless}, {bogus}]"),
    );
    check_list(
        "resourceVersionMatch=Bogus&resourceVersion=abc",
        &format!("{LIST}{bogus}"),
    );
    check_list(
        "resourceVersion=0&resourceVersionMatch=Exact",
        &format!(
            "{LIST}resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""
        ),
    );
    check_list(
        "resourceVersionMatch=Exact&continue=c",
        &format!(
            "{LIST}[{unless}, resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided]"
        ),
    );
}

#[test]
fn initial_events_are_for_watches() {
    let list_only = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list";
    check_list("sendInitialEvents=true", &format!("{LIST}{list_only}"));
    let requires = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    check_watch("sendInitialEvents=true", &format!("{LIST}{requires}"));
    let exact = "resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"";
    check_watch(
        "sendInitialEvents=true&resourceVersionMatch=Exact",
        &format!("{LIST}[{requires}, {exact}]"),
    );
    let unless = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
    check_watch("resourceVersionMatch=NotOlderThan", &format!("{LIST}{unless}"));
    check_watch(
        "resourceVersionMatch=Exact",
        &format!("{LIST}[{unless}, {exact}]"),
    );
    check_watch(
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        "",
    );
}

#[test]
fn a_watch_has_a_default_timeout() {
    let timeout = |query| {
        watch(&Query::parse(Some(query)), Duration::from_secs(1800))
            .unwrap()
            .timeout
    };
    assert_eq!(timeout(""), Some(Duration::from_secs(1800)));
    assert_eq!(timeout("timeoutSeconds=0"), Some(Duration::from_secs(1800)));
    assert_eq!(timeout("timeoutSeconds=5"), Some(Duration::from_secs(5)));
}

#[test]
fn dry_run_is_all_or_absent() {
    let create = "422 CreateOptions.meta.k8s.io \"\" is invalid: ";
    for value in ["all", "", "Some", "true"] {
        let unsupported =
            format!("{create}dryRun: Unsupported value: [{value:?}]: supported values: \"All\"");
        check_write(&format!("dryRun={value}"), &unsupported);
    }
    assert!(
        write(&Query::parse(Some("dryRun=All&dryRun=All")), "CreateOptions", "")
            .unwrap()
            .dry_run
    );
    assert!(!write(&Query::parse(None), "CreateOptions", "").unwrap().dry_run);
}

#[test]
fn field_validation_is_one_of_three() {
    let read = |query| {
        write(&Query::parse(Some(query)), "CreateOptions", "").map(|options| options.field_validation)
    };
    assert_eq!(read("").unwrap(), FieldValidation::Warn);
    assert_eq!(read("fieldValidation=Strict").unwrap(), FieldValidation::Strict);
    assert_eq!(read("fieldValidation=Ignore").unwrap(), FieldValidation::Ignore);
    assert_eq!(read("fieldValidation=strict").unwrap_err().code, 422);
}

#[test]
fn the_default_field_manager_comes_from_the_user_agent() {
    let manager = |query, agent| {
        write(&Query::parse(Some(query)), "CreateOptions", agent)
            .unwrap()
            .field_manager
    };
    assert_eq!(manager("fieldManager=me", "kubectl/v1.37").as_deref(), Some("me"));
    assert_eq!(manager("", "kubectl/v1.37 (linux)").as_deref(), Some("kubectl"));
    assert_eq!(manager("", "").as_deref(), Some("unknown"));
}

#[test]
fn a_field_manager_is_short_and_printable() {
    let create = "422 CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: ";
    check_write(
        &format!("fieldManager={}", "x".repeat(129)),
        &format!("{create}Too long: may not be more than 128 bytes"),
    );
    check_write(
        "fieldManager=a%0Ab",
        &format!("{create}Invalid value: \"a\\nb\": invalid character U+000A (at position 1)"),
    );
}

#[test]
fn only_an_apply_may_force_and_it_requires_a_manager() {
    let patch_error = |query, patch_type| error(patch(&Query::parse(Some(query)), patch_type, ""));
    let invalid = "422 PatchOptions.meta.k8s.io \"\" is invalid: ";
    assert_eq!(
        patch_error("", PatchType::Apply),
        format!("{invalid}fieldManager: Required value: is required for apply patch")
    );
    assert_eq!(patch_error("fieldManager=a&force=true", PatchType::Apply), "");
    assert_eq!(
        patch_error("force=true", PatchType::Merge),
        format!("{invalid}force: Forbidden: may not be specified for non-apply patch")
    );
}

#[test]
fn a_watch_with_a_match_has_no_continue_token() {
    let forbidden =
        "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided";
    check_watch("continue=x", &format!("{LIST}{forbidden}"));
    check_watch("continue=x&resourceVersion=0", &format!("{LIST}{forbidden}"));
    let requires = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    check_watch("continue=x&sendInitialEvents=true", &format!("{LIST}{requires}"));
    assert!(
        watch(
            &Query::parse(Some("watch=true&continue=x&resourceVersion=7")),
            Duration::ZERO
        )
        .is_ok()
    );
}

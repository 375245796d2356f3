//! Tests of metrics.

use super::*;

#[track_caller]
fn check(files: &[(&str, &str)], expected: &[&str]) {
    let storage = MetricStorage::new("shell_operator_");
    for (hook, file) in files {
        storage.apply(&parse_operations(file.as_bytes()).unwrap(), hook);
    }
    let text = storage.to_text();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines, expected);
}

#[track_caller]
fn check_invalid(file: &str, expected: &str) {
    let error = parse_operations(file.as_bytes()).unwrap_err();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn values_are_added_and_set() {
    check(
        &[
            (
                "a.sh",
                r#"{"name":"n","action":"add","value":1,"labels":{"l":"x"}}{"name":"g","set":33}"#,
            ),
            (
                "a.sh",
                "{\"name\":\"n\",\"add\":2,\"labels\":{\"l\":\"x\"}}\n{\"name\":\"g\",\"set\":0.5}",
            ),
        ],
        &[r#"g{hook="a.sh"} 0.5"#, r#"n{hook="a.sh",l="x"} 3"#],
    );
}

#[test]
fn a_histogram_counts_the_values_up_to_each_bound() {
    check(
        &[(
            "a.sh",
            r#"{"name":"h","action":"observe","value":4,"buckets":[1,5]}"#,
        )],
        &[
            r#"h_bucket{hook="a.sh",le="1"} 0"#,
            r#"h_bucket{hook="a.sh",le="5"} 1"#,
            r#"h_bucket{hook="a.sh",le="+Inf"} 1"#,
            r#"h_sum{hook="a.sh"} 4"#,
            r#"h_count{hook="a.sh"} 1"#,
        ],
    );
}

#[test]
fn metrics_of_a_group_expire_unless_they_are_written_again() {
    let first = r#"{"group":"g","name":"m","action":"add","value":1,"labels":{"kind":"pod"}}
        {"group":"g","name":"m","action":"add","value":1,"labels":{"kind":"job"}}
        {"name":"m","action":"add","value":7}"#;
    let second = r#"{"group":"g","name":"m","action":"add","value":1,"labels":{"kind":"pod"}}"#;
    check(
        &[("1.sh", first), ("1.sh", second)],
        &[r#"m{hook="1.sh"} 7"#, r#"m{hook="1.sh",kind="pod"} 2"#],
    );
    let expiry = r#"{"group":"g","action":"expire"}"#;
    check(&[("1.sh", first), ("2.sh", expiry)], &[r#"m{hook="1.sh"} 7"#]);
}

#[test]
fn invalid_operations_are_reported() {
    check_invalid("garbage", "got bad metrics");
    check_invalid(r#"{"name":"m"}"#, "one of: 'action', 'set' or 'add' is required");
    check_invalid(r#"{"name":"m","set":1,"add":1}"#, "mutual exclusive");
    check_invalid(
        r#"{"name":"m","action":"observe","value":1}"#,
        "'buckets' is required",
    );
    check_invalid(r#"{"action":"set","value":1}"#, "'name' is required");
    check_invalid(r#"{"name":"m","action":"expire"}"#, "unsupported action 'expire'");
}

/// Comparing each series with each operation would take minutes.
#[test]
fn a_group_with_many_series_is_applied_in_one_pass() {
    let storage = MetricStorage::new("");
    let operation = |at: usize| {
        let group = at % 1_000;
        format!(r#"{{"group":"g{group}","name":"m","set":{at},"labels":{{"n":"{at}"}}}}"#)
    };
    let file: String = (0..40_000).map(operation).collect();
    let operations = parse_operations(file.as_bytes()).unwrap();
    storage.apply(&operations, "a.sh");
    storage.apply(&operations[..39_000], "a.sh");
    assert_eq!(storage.to_text().lines().count(), 39_000 + 2);
}

#[test]
fn an_invalid_name_does_not_spoil_the_metrics_of_other_hooks() {
    check(
        &[
            ("good.sh", r#"{"name":"good_total","add":1}"#),
            (
                "bad.sh",
                r#"{"name":"no spaces","set":1}{"name":"a\nb","set":1}{"name":"m","set":1,"labels":{"a-b":"x"}}{"name":"9","set":1}
                   {"name":"h","action":"observe","value":1,"buckets":[1],"labels":{"le":"x"}}"#,
            ),
        ],
        &[r#"good_total{hook="good.sh"} 1"#],
    );
}

#[test]
fn metrics_with_the_prefix_in_their_name_expire_with_their_group() {
    let first = r#"{"group":"g","name":"{PREFIX}m","set":1}"#;
    let second = r#"{"group":"g","action":"expire"}"#;
    check(&[("a.sh", first), ("a.sh", second)], &[]);
}

//! Rows for accepted and rejected configurations.

use serde_json::json;

use super::*;
use crate::framework::Handle;

fn configuration(fields: Value) -> Value {
    let mut object = json!({"apiVersion": API_VERSION, "kind": KIND});
    let fields = fields.as_object().cloned().unwrap_or_default();
    object.as_object_mut().unwrap().extend(fields);
    object
}

#[track_caller]
fn check_error(fields: Value, expected: &str) {
    let error = parse(&configuration(fields)).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn the_empty_configuration_is_the_default() {
    let config = parse(&configuration(json!({}))).unwrap();
    assert_eq!(
        (config.parallelism, config.backoff),
        (None, BackoffConfig::default())
    );
    let profile = config.profiles[0].build(&Handle::default()).unwrap();
    assert_eq!(profile.scheduler, DEFAULT_NAME);
    let default = crate::plugins::default_profile(&Handle::default());
    let names = |profile: &crate::framework::Profile| -> Vec<&str> {
        profile.filter.iter().map(|one| one.name()).collect()
    };
    assert_eq!(names(&profile), names(&default));
    let weights: Vec<i64> = profile.score.iter().map(|(_, weight)| *weight).collect();
    let defaults: Vec<i64> = default.score.iter().map(|(_, weight)| *weight).collect();
    assert_eq!(weights, defaults);
}

#[test]
fn unknown_fields_are_errors_with_their_paths() {
    check_error(
        json!({"paralellism": 1}),
        "strict decoding error: unknown field \"paralellism\"",
    );
    check_error(
        json!({"profiles": [{"plugins": {"filter": {"enable": []}}}]}),
        "strict decoding error: unknown field \"profiles[0].plugins.filter.enable\"",
    );
    check_error(
        json!({"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignored": []}}]}]}),
        "strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: unknown field \"ignored\"",
    );
}

#[test]
fn invalid_values_are_reported_together() {
    check_error(
        json!({"parallelism": 0, "percentageOfNodesToScore": 101}),
        "[parallelism: Invalid value: 0: should be an integer value greater than zero, percentageOfNodesToScore: Invalid \
         value: 101: not in valid range [0-100]]",
    );
    check_error(
        json!({"podInitialBackoffSeconds": 5, "podMaxBackoffSeconds": 2}),
        "podMaxBackoffSeconds: Invalid value: 2: must be greater than or equal to PodInitialBackoffSeconds",
    );
    check_error(
        json!({"profiles": [{"schedulerName": "a"}, {}]}),
        "profiles[1].schedulerName: Required value",
    );
}

#[test]
fn timeouts_of_plugins_are_checked_with_their_paths() {
    let args = json!({"filterTimeout": "-1s", "bindingTimeout": "500ms"});
    check_error(
        json!({"profiles": [{"schedulerName": "x", "pluginConfig": [{"name": "DynamicResources", "args": args}]}]}),
        "[profiles[0].pluginConfig[0].args.filterTimeout: Invalid value: \"-1s\": must be zero or positive, \
         profiles[0].pluginConfig[0].args.bindingTimeout: Invalid value: \"500ms\": must be at least 1 second]",
    );
}

#[test]
fn plugins_must_exist_and_extend_the_point() {
    check_error(
        json!({"profiles": [{"plugins": {"filter": {"enabled": [{"name": "Foo"}]}}}]}),
        "FilterPlugin \"Foo\" does not exist",
    );
    check_error(
        json!({"profiles": [{"plugins": {"filter": {"enabled": [{"name": "ImageLocality"}]}}}]}),
        "plugin \"ImageLocality\" does not extend FilterPlugin plugin",
    );
}

#[test]
fn a_profile_selects_plugins_weights_and_arguments() {
    let config = parse(&configuration(json!({"profiles": [
        {"schedulerName": "packing",
         "percentageOfNodesToScore": 30,
         "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 5}]}},
         "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}]},
        {"schedulerName": "spreading"},
    ]})));
    let profiles: Vec<_> = config
        .unwrap()
        .profiles
        .iter()
        .map(|one| one.build(&Handle::default()).unwrap())
        .collect();
    let scores: Vec<(&str, i64)> = profiles[0]
        .score
        .iter()
        .map(|(one, weight)| (one.name(), *weight))
        .collect();
    assert_eq!(
        (scores, profiles[0].percentage_of_nodes_to_score),
        (vec![("NodeResourcesFit", 5)], 30)
    );
    assert_eq!(profiles[1].scheduler, "spreading");
    assert!(profiles[1].score.len() > 1);
}

#[test]
fn another_kind_is_rejected() {
    let error = parse(&json!({"apiVersion": "v1", "kind": "Pod"})).unwrap_err();
    assert!(
        error
            .0
            .starts_with("no kind \"Pod\" is registered for version \"v1\""),
        "{error}"
    );
}

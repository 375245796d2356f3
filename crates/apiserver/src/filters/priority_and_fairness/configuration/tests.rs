//! Which FlowSchema a request has, and how many seats a level.

use serde_json::{Value, json};
use setpoint_api::SystemClock;
use setpoint_auth::authorize::AccessTarget;

use super::*;
use crate::filters::priority_and_fairness::objects::Object;

fn object<S: serde::de::DeserializeOwned>(name: &str, spec: Value) -> Object<S> {
    Object {
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        spec: serde_json::from_value(spec).unwrap(),
    }
}

/// A FlowSchema for one user.
pub(crate) fn flow_schema(name: &str, precedence: i32, level: &str, user: &str) -> FlowSchemaObject {
    let spec = json!({
        "matchingPrecedence": precedence,
        "priorityLevelConfiguration": {"name": level},
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [{
            "subjects": [{"kind": "User", "user": {"name": user}}],
            "resourceRules": [{
                "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true,
            }],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }],
    });
    object(name, spec)
}

/// A level that rejects what is over its limit.
pub(crate) fn level(name: &str, shares: u32) -> PriorityLevelObject {
    let limited = json!({"nominalConcurrencyShares": shares, "limitResponse": {"type": "Reject"}});
    object(name, json!({"type": "Limited", "limited": limited}))
}

/// A level with queues.
pub(crate) fn queuing_level(
    name: &str,
    shares: u32,
    queues: usize,
    queue_length_limit: usize,
) -> PriorityLevelObject {
    let queuing = json!({"queues": queues, "handSize": 1, "queueLengthLimit": queue_length_limit});
    let limited = json!({
        "nominalConcurrencyShares": shares,
        "limitResponse": {"type": "Queue", "queuing": queuing},
    });
    object(name, json!({"type": "Limited", "limited": limited}))
}

fn factory(seats: usize) -> LevelFactory {
    LevelFactory {
        seats,
        clock: Arc::new(SystemClock::new()),
        wake: Arc::default(),
    }
}

fn compile(
    schemas: &[FlowSchemaObject],
    levels: &[PriorityLevelObject],
    previous: &[LevelConfiguration],
) -> Configuration {
    Configuration::compile(schemas, levels, previous, &factory(600))
}

#[track_caller]
fn check(configuration: &Configuration, name: &str, group: &str, expected: (&str, &str)) {
    let attributes = Attributes::new("get", AccessTarget::Path("/version"));
    let schema = configuration.classify(&User::new(name, &[group]), &attributes);
    assert_eq!(
        (schema.name.as_str(), schema.level.name()),
        expected,
        "{name} {group}"
    );
}

#[tokio::test]
async fn the_mandatory_objects_always_exist() {
    let configuration = compile(&[], &[], &[]);
    check(&configuration, "admin", User::MASTERS, ("exempt", "exempt"));
    check(
        &configuration,
        "alice",
        User::AUTHENTICATED,
        ("catch-all", "catch-all"),
    );
    check(&configuration, "x", "", ("catch-all", "catch-all"));
    let limits: Vec<usize> = configuration
        .levels
        .iter()
        .map(|one| one.limits.nominal)
        .collect();
    assert_eq!(limits, [600, 0]);
}

#[tokio::test]
async fn the_lowest_precedence_matches_first_and_then_the_name() {
    let schemas = [
        flow_schema("b", 100, "low", "alice"),
        flow_schema("a", 100, "high", "alice"),
        flow_schema("first", 7, "high", "bob"),
        flow_schema("last", 9, "low", "bob"),
    ];
    let configuration = compile(&schemas, &[level("low", 10), level("high", 20)], &[]);
    check(&configuration, "alice", "", ("a", "high"));
    check(&configuration, "bob", "", ("first", "high"));
    check(&configuration, "carol", "", ("catch-all", "catch-all"));
}

#[tokio::test]
async fn a_schema_without_its_level_is_not_in_force() {
    let schemas = [flow_schema("dangling", 100, "absent", "alice")];
    check(
        &compile(&schemas, &[], &[]),
        "alice",
        "",
        ("catch-all", "catch-all"),
    );
}

#[tokio::test]
async fn a_malformed_level_counts_as_absent() {
    let schemas = [flow_schema("mine", 100, "wide-open", "alice")];
    let levels = [object("wide-open", json!({"type": "Exempt", "exempt": {}}))];
    check(
        &compile(&schemas, &levels, &[]),
        "alice",
        "",
        ("catch-all", "catch-all"),
    );
}

#[tokio::test]
async fn seats_are_divided_by_shares() {
    let lending = json!({
        "nominalConcurrencyShares": 10, "lendablePercent": 50, "borrowingLimitPercent": 25,
        "limitResponse": {"type": "Queue", "queuing": {"queues": 64, "handSize": 6, "queueLengthLimit": 50}},
    });
    let levels = [
        object("lender", json!({"type": "Limited", "limited": lending})),
        level("other", 15),
    ];
    let configuration = compile(&[flow_schema("mine", 1, "lender", "alice")], &levels, &[]);
    let limits = |name: &str| {
        let found = configuration.levels.iter().find(|one| one.object.name == name);
        found.unwrap().limits
    };
    let expected = Limits {
        nominal: 200,
        lower: 100,
        upper: 250,
    };
    assert_eq!(limits("lender"), expected);
    let expected = Limits {
        nominal: 300,
        lower: 300,
        upper: 900,
    };
    assert_eq!(limits("other"), expected);
    // 15 percent of 200 seats; a sixth of them would be more.
    assert_eq!(configuration.flow_schemas[1].max_seats, Some(30));
}

#[tokio::test]
async fn a_level_continues_from_one_configuration_to_the_next() {
    let first = compile(&[], &[level("mine", 10)], &[]);
    let second = compile(&[], &[level("mine", 30)], &first.levels);
    let of = |configuration: &Configuration| configuration.levels[2].level.clone();
    assert_eq!(of(&first).name(), "mine");
    assert!(Arc::ptr_eq(&of(&first), &of(&second)));
    assert_eq!(compile(&[], &[], &second.levels).levels.len(), 2);
}

#[tokio::test]
async fn flows_are_distinguished_only_where_there_are_queues() {
    let schemas = [
        flow_schema("queued", 1, "queues", "alice"),
        flow_schema("rejected", 2, "rejects", "alice"),
    ];
    let configuration = compile(
        &schemas,
        &[queuing_level("queues", 1, 4, 5), level("rejects", 1)],
        &[],
    );
    let distinguishers: Vec<_> = configuration
        .flow_schemas
        .iter()
        .map(|schema| schema.distinguisher)
        .collect();
    // With the mandatory ones first and last.
    assert_eq!(
        distinguishers,
        [None, Some(DistinguisherMethod::ByUser), None, None]
    );
}

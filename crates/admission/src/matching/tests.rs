//! Rows: criteria in YAML's flow style, a request, and the resource and kind that match.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_api::options::WriteOptions;
use setpoint_api::{ApiVerb, GroupResource, Gvr, Key, ResourceVersion, Stored, User};
use setpoint_cache::{Cache, Caches};
use setpoint_registry_api::{ObjectReader, Operation, OperationOptions, ReinvocationContext};
use setpoint_schema::{Tree, to_tree};
use setpoint_strategy::{Kinds, RequestFacts};

use super::*;

/// The built-in kinds, and one namespace: `team`, with the label `env: test`.
#[derive(Debug)]
struct Server {
    kinds: Arc<Kinds>,
}

impl Caches for Server {
    fn cache(&self, _resource: &GroupResource) -> Option<Arc<Cache>> {
        None
    }
}

impl ObjectReader for Server {
    fn find_object(&self, resource: &GroupResource, key: &Key) -> Option<Arc<Stored>> {
        let kind = self.kinds.find_resource(resource)?;
        let json = json!({"metadata": {"name": "team", "labels": {"env": "test"}}}).to_string();
        let stored = kind.stored(key.clone(), ResourceVersion(1), json.into());
        stored.ok().filter(|_| key.name() == "team").map(Arc::new)
    }

    fn decode_object(&self, _resource: &GroupResource, _object: &Stored) -> Option<Tree> {
        None
    }

    fn served_kinds(&self) -> Arc<Kinds> {
        self.kinds.clone()
    }
}

/// A request: its operation, its resource as `group/version/resource[/subresource]`, and the labels of its object.
struct Case {
    operation: Operation,
    path: &'static str,
    namespace: &'static str,
    name: &'static str,
    labels: Value,
}

const POD: Case = Case {
    operation: Operation::Create,
    path: "/v1/pods",
    namespace: "team",
    name: "web",
    labels: Value::Null,
};

impl Case {
    /// The matched resource and kind; `-` if none, or the message of the error.
    fn matched(&self, criteria: &Value) -> String {
        let server = Server {
            kinds: Arc::new(setpoint_kinds::builtin()),
        };
        let mut parts = self.path.splitn(4, '/');
        let mut part = || parts.next().unwrap_or_default();
        let gvr = Gvr::new(part(), part(), part());
        let subresource = Some(part()).filter(|name| !name.is_empty());
        let user = Arc::new(User::anonymous());
        let facts = RequestFacts {
            now: Timestamp::UNIX_EPOCH,
            user: user.clone(),
            event_ttl: Duration::ZERO,
            allow_privileged: false,
        };
        let mut object = to_tree(&json!({"metadata": {"labels": self.labels}})).unwrap();
        let options = WriteOptions::default();
        let kind = server.kinds.find(&gvr).unwrap().clone();
        let review = Review {
            operation: self.operation,
            verb: ApiVerb::Create,
            user: &user,
            kind: kind.info(),
            namespace: self.namespace,
            name: self.name,
            subresource,
            object: Some(&mut object),
            old: None,
            old_body: None,
            options: OperationOptions::Write(&options),
            dry_run: false,
            facts: &facts,
            deadline: Timestamp::MAX,
            reinvocation: ReinvocationContext::default(),
            side_writes: Vec::new(),
            warnings: Vec::new(),
            audit_annotations: Vec::new(),
            reader: &server,
        };
        let criteria: MatchCriteria = serde_json::from_value(criteria.clone()).unwrap();
        match criteria.matches(&review) {
            Ok(None) => "-".to_owned(),
            Ok(Some(MatchedResource { kind, resource })) => {
                let version = kind.api_version();
                format!(
                    "{}/{} {version}/{}",
                    resource.api_version(),
                    resource.resource,
                    kind.kind
                )
            }
            Err(status) => status.message,
        }
    }
}

/// One rule for all operations: group, version, resource.
fn rule(group: &str, version: &str, resource: &str) -> Value {
    json!({
        "operations": ["*"], "apiGroups": [group], "apiVersions": [version], "resources": [resource],
    })
}

#[track_caller]
fn check(case: &Case, rule: Value, expected: &str) {
    assert_eq!(case.matched(&json!({"rules": [rule]})), expected);
}

#[track_caller]
fn check_resources(path: &'static str, patterns: &[(&str, bool)]) {
    for (pattern, expected) in patterns {
        let matched = Case { path, ..POD }.matched(&json!({"rules": [rule("*", "*", pattern)]}));
        assert_eq!(matched != "-", *expected, "{pattern} on {path}: {matched}");
    }
}

#[test]
fn groups_versions_and_resources_match_by_name_or_wildcard() {
    const MATCHED: &str = "v1/pods v1/Pod";
    check(&POD, rule("", "v1", "pods"), MATCHED);
    check(&POD, rule("*", "*", "*"), MATCHED);
    check(&POD, rule("apps", "v1", "pods"), "-");
    check(&POD, rule("", "v2", "pods"), "-");
    check(&POD, rule("", "v1", "services"), "-");
    check(&POD, json!({}), "-");
}

#[test]
fn a_resource_without_a_slash_has_no_subresources() {
    check_resources(
        "/v1/pods",
        &[
            ("pods", true),
            ("*", true),
            ("*/*", true),
            ("pods/*", true),
            ("pods/status", false),
            ("*/status", false),
        ],
    );
    check_resources(
        "/v1/pods/status",
        &[
            ("pods", false),
            ("*", false),
            ("*/*", true),
            ("pods/*", true),
            ("pods/status", true),
            ("*/status", true),
            ("pods/exec", false),
        ],
    );
}

#[test]
fn operations_match_by_name() {
    for (operation, name) in [
        (Operation::Create, "CREATE"),
        (Operation::Update, "UPDATE"),
        (Operation::Delete, "DELETE"),
        (Operation::Connect, "CONNECT"),
    ] {
        let mut only = rule("", "v1", "pods");
        only["operations"] = json!([name]);
        check(&Case { operation, ..POD }, only.clone(), "v1/pods v1/Pod");
        only["operations"] = json!(["NONE"]);
        check(&Case { operation, ..POD }, only, "-");
    }
}

#[test]
fn a_namespace_is_cluster_scoped() {
    let namespace = Case {
        path: "/v1/namespaces",
        namespace: "",
        name: "team",
        ..POD
    };
    let node = Case {
        path: "/v1/nodes",
        namespace: "",
        ..POD
    };
    for (case, scope, expected) in [
        (&namespace, "Cluster", true),
        (&namespace, "Namespaced", false),
        (&namespace, "*", true),
        (&node, "Cluster", true),
        (&node, "Namespaced", false),
        (&POD, "Cluster", false),
        (&POD, "Namespaced", true),
    ] {
        let mut scoped = rule("*", "*", "*");
        scoped["scope"] = scope.into();
        let matched = case.matched(&json!({"rules": [scoped]}));
        assert_eq!(matched != "-", expected, "{scope} on {}", case.path);
    }
}

#[test]
fn an_equivalent_resource_matches_with_its_own_kind() {
    let criteria = |policy: &str, rule: Value| json!({"rules": [rule], "matchPolicy": policy});
    let hpa = Case {
        path: "autoscaling/v1/horizontalpodautoscalers",
        ..POD
    };
    let v2 = rule("autoscaling", "v2", "horizontalpodautoscalers");
    let matched = "autoscaling/v2/horizontalpodautoscalers autoscaling/v2/HorizontalPodAutoscaler";
    assert_eq!(hpa.matched(&criteria("Equivalent", v2.clone())), matched);
    assert_eq!(hpa.matched(&criteria("Exact", v2)), "-");
    let event = Case {
        path: "/v1/events",
        ..POD
    };
    let other_group = rule("events.k8s.io", "v1", "events");
    let matched = "events.k8s.io/v1/events events.k8s.io/v1/Event";
    assert_eq!(event.matched(&criteria("Equivalent", other_group)), matched);
    let status = Case {
        path: "autoscaling/v1/horizontalpodautoscalers/status",
        ..POD
    };
    let v2 = rule("autoscaling", "v2", "horizontalpodautoscalers/status");
    let matched = "autoscaling/v2/horizontalpodautoscalers autoscaling/v2/HorizontalPodAutoscaler";
    assert_eq!(status.matched(&criteria("Equivalent", v2)), matched);
}

#[test]
fn the_kind_of_a_subresource_is_that_of_its_body() {
    let any = || rule("*", "*", "*/*");
    let case = |path| Case { path, ..POD };
    check(
        &case("apps/v1/deployments/scale"),
        any(),
        "apps/v1/deployments autoscaling/v1/Scale",
    );
    check(&case("/v1/pods/eviction"), any(), "v1/pods policy/v1/Eviction");
    check(&case("/v1/pods/exec"), any(), "v1/pods v1/PodExecOptions");
    check(&case("/v1/pods/status"), any(), "v1/pods v1/Pod");
}

#[track_caller]
fn check_selectors(case: &Case, selectors: Value, expected: &str) {
    let mut criteria = selectors;
    criteria["rules"] = json!([rule("*", "*", "*")]);
    assert_eq!(case.matched(&criteria), expected);
}

#[test]
fn a_namespace_selector_selects_the_namespace_of_the_object() {
    let selector = |value: &str| json!({"namespaceSelector": {"matchLabels": {"env": value}}});
    check_selectors(&POD, selector("test"), "v1/pods v1/Pod");
    check_selectors(&POD, selector("prod"), "-");
    check_selectors(
        &Case {
            namespace: "gone",
            ..POD
        },
        selector("test"),
        "namespaces \"gone\" not found",
    );
    let node = Case {
        path: "/v1/nodes",
        namespace: "",
        ..POD
    };
    check_selectors(&node, selector("prod"), "v1/nodes v1/Node");
    let labels = json!({"env": "prod"});
    let namespace = Case {
        path: "/v1/namespaces",
        namespace: "",
        name: "team",
        labels,
        ..POD
    };
    check_selectors(&namespace, selector("prod"), "v1/namespaces v1/Namespace");
    check_selectors(&namespace, selector("test"), "-");
    let deleted = Case {
        operation: Operation::Delete,
        ..namespace
    };
    check_selectors(&deleted, selector("test"), "v1/namespaces v1/Namespace");
}

#[test]
fn an_object_selector_selects_by_the_labels_of_the_object() {
    let selector = |value: &str| json!({"objectSelector": {"matchLabels": {"app": value}}});
    let labelled = Case {
        labels: json!({"app": "web"}),
        ..POD
    };
    check_selectors(&labelled, selector("web"), "v1/pods v1/Pod");
    check_selectors(&labelled, selector("db"), "-");
    let exec = Case {
        path: "/v1/pods/exec",
        operation: Operation::Connect,
        ..labelled
    };
    let mut criteria = selector("web");
    criteria["rules"] = json!([rule("*", "*", "*/*")]);
    assert_eq!(exec.matched(&criteria), "-");
}

#[test]
fn a_namespace_that_is_missing_is_no_error_if_no_rule_matches() {
    let case = Case {
        namespace: "gone",
        ..POD
    };
    let criteria = json!({
        "namespaceSelector": {"matchLabels": {"env": "test"}}, "rules": [rule("apps", "v1", "deployments")],
    });
    assert_eq!(case.matched(&criteria), "-");
}

#[test]
fn policies_exclude_resources_and_select_names() {
    let named = |names: &[&str]| {
        let mut named = rule("", "v1", "pods");
        named["resourceNames"] = json!(names);
        named
    };
    let matched = "v1/pods v1/Pod";
    let rules = |rules: Value| POD.matched(&json!({"resourceRules": rules}));
    assert_eq!(rules(json!([named(&["db", "web"])])), matched);
    assert_eq!(rules(json!([named(&["db"])])), "-");
    let excluding = |rule: Value| POD.matched(&json!({"excludeResourceRules": [rule]}));
    assert_eq!(excluding(named(&["web"])), "-");
    assert_eq!(excluding(named(&["db"])), matched);
}

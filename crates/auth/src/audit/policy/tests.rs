//! Valid and invalid policies, and the levels of requests.

use super::*;

const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: None
  users: ["system:kube-proxy"]
  verbs: ["watch"]
- level: Metadata
  resources:
  - group: ""
    resources: ["secrets", "configmaps"]
- level: None
  nonResourceURLs: ["/healthz*", "/version"]
- level: Request
  userGroups: ["devs"]
  namespaces: ["prod"]
  omitManagedFields: false
  omitStages: [ResponseStarted]
- level: RequestResponse
  resources:
  - group: "apps"
    resources: ["deployments", "*/scale"]
    resourceNames: ["web"]
- level: Metadata
  resources:
  - group: "*"
    resources: ["pods/*"]
"#;

#[track_caller]
fn check(user: &str, verb: &str, target: &str, expected: Level) {
    let policy = Policy::parse(POLICY).unwrap();
    let words: Vec<&str> = target.split(' ').collect();
    let object = match words.as_slice() {
        [path] => AccessTarget::Path(path),
        [group, resource, namespace, name] => {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            AccessTarget::Resource {
                group: group.trim_matches('-'),
                resource,
                subresource,
                namespace: namespace.trim_matches('-'),
                name: name.trim_matches('-'),
            }
        }
        _ => panic!("{target:?} is neither a path nor group, resource, namespace and name"),
    };
    let user = User::new(user, if user == "dev" { &["devs"] } else { &[] });
    let level = policy.level(&user, &Attributes::new(verb, object));
    assert_eq!(level, expected, "{} {verb} {target}", user.name);
}

#[test]
fn the_first_rule_that_matches_decides() {
    check("system:kube-proxy", "watch", "- secrets default -", Level::None);
    check("system:kube-proxy", "get", "- secrets default x", Level::Metadata);
    check("alice", "get", "- secrets default x", Level::Metadata);
    check("dev", "get", "- services prod x", Level::Request);
    check("dev", "get", "- services test x", Level::None);
    check("alice", "get", "- services prod x", Level::None);
}

#[test]
fn resources_match_by_group_name_and_part() {
    check(
        "alice",
        "get",
        "apps deployments default web",
        Level::RequestResponse,
    );
    check("alice", "get", "apps deployments default db", Level::None);
    check(
        "alice",
        "get",
        "apps statefulsets/scale default web",
        Level::RequestResponse,
    );
    check("alice", "get", "apps deployments/status default web", Level::None);
    check("alice", "get", "- secrets/x default web", Level::None);
    check("alice", "get", "- pods default web", Level::Metadata);
    check("alice", "get", "- pods/log default web", Level::Metadata);
}

#[test]
fn paths_match_by_their_start() {
    check("alice", "get", "/healthz/etcd", Level::None);
    check("dev", "get", "/metrics", Level::None);
}

#[test]
fn a_rule_may_narrow_stages_and_fields() {
    let policy = Policy::parse(POLICY).unwrap();
    let object = AccessTarget::Resource {
        group: "",
        resource: "services",
        subresource: "",
        namespace: "prod",
        name: "",
    };
    let config = policy.evaluate(&User::new("dev", &["devs"]), &Attributes::new("list", object));
    assert_eq!(
        config,
        RequestAuditConfig {
            level: Level::Request,
            omit_stages: vec![Stage::ResponseStarted, Stage::RequestReceived],
            omit_managed_fields: false,
        }
    );
}

#[track_caller]
fn check_bad(rules: &str, expected: &str) {
    let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: {rules}\n");
    assert_eq!(Policy::parse(&text).unwrap_err().to_string(), expected);
}

#[test]
fn invalid_policies_are_rejected() {
    check_bad("[]", "loaded illegal policy with 0 rules");
    check_bad("[{}]", "rules[0].level: Required value");
    check_bad(
        "[{level: All}]",
        r#"rules[0].level: Unsupported value: "All": supported values: "None", "Metadata", "Request", "RequestResponse""#,
    );
    check_bad(
        r#"[{level: None, nonResourceURLs: ["x", "/a*b"]}]"#,
        r#"[rules[0].nonResourceURLs[0]: Invalid value: "x": non-resource URL rules must begin with a '/' character, rules[0].nonResourceURLs[1]: Invalid value: "/a*b": non-resource URL wildcards '*' must be the final character of the rule]"#,
    );
    check_bad(
        r#"[{level: None, namespaces: [a], nonResourceURLs: ["/x"]}]"#,
        r#"rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs"#,
    );
    check_bad(
        "[{level: None, omitStages: [Late]}]",
        r#"rules[0].omitStages[0]: Invalid value: "Late": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic"#,
    );
    let other = Policy::parse("apiVersion: v1\nkind: Pod\n").unwrap_err();
    assert_eq!(
        other.to_string(),
        "unknown group version field v1, Kind=Pod in policy"
    );
}

//! Matching of a request with the rules of a FlowSchema.
//!
//! The rules are those of Kubernetes' `apiserver/pkg/util/flowcontrol/rule.go`. Nothing is allocated.

use setpoint_api::User;
use setpoint_auth::authorize::{AccessTarget, Attributes};

use super::objects::{AccountName, NonResourceRule, ResourceRule, Rule, Subject};

const ALL: &str = "*";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Whether any of the rules matches a request.
pub(crate) fn matches(rules: &[Rule], user: &User, attributes: &Attributes<'_>) -> bool {
    rules.iter().any(|rule| {
        rule.subjects.iter().any(|subject| matches_subject(subject, user))
            && matches_request(rule, attributes)
    })
}

fn matches_subject(subject: &Subject, user: &User) -> bool {
    match subject {
        Subject::User { user: subject } => subject.name == ALL || subject.name == user.name,
        Subject::Group { group } => group.name == ALL || user.groups.contains(&group.name),
        Subject::ServiceAccount { service_account } => matches_account(service_account, &user.name),
    }
}

/// Whether a user name is that of the service account, or of any in its namespace.
fn matches_account(account: &AccountName, user_name: &str) -> bool {
    let name = user_name
        .strip_prefix(SERVICE_ACCOUNT_PREFIX)
        .and_then(|rest| rest.strip_prefix(account.namespace.as_str()))
        .and_then(|rest| rest.strip_prefix(':'));
    name.is_some_and(|name| account.name == ALL || account.name == name)
}

fn matches_request(rule: &Rule, attributes: &Attributes<'_>) -> bool {
    match attributes.target {
        AccessTarget::Resource { .. } => rule
            .resource_rules
            .iter()
            .any(|rule| matches_resource(rule, attributes)),
        AccessTarget::Path(path) => rule
            .non_resource_rules
            .iter()
            .any(|rule| matches_path(rule, attributes, path)),
    }
}

fn matches_resource(rule: &ResourceRule, attributes: &Attributes<'_>) -> bool {
    let AccessTarget::Resource {
        group,
        resource,
        subresource,
        namespace,
        ..
    } = attributes.target
    else {
        return false;
    };
    contains(&rule.verbs, |verb| attributes.verb == verb)
        && contains(&rule.resources, |own| is_resource(own, resource, subresource))
        && contains(&rule.api_groups, |own| own == group)
        && match namespace {
            "" => rule.cluster_scope,
            namespace => contains(&rule.namespaces, |own| own == namespace),
        }
}

/// Whether `own` is the resource, or `RESOURCE/SUBRESOURCE` if the request has a subresource.
fn is_resource(own: &str, resource: &str, subresource: &str) -> bool {
    match subresource {
        "" => own == resource,
        subresource => own.split_once('/') == Some((resource, subresource)),
    }
}

fn matches_path(rule: &NonResourceRule, attributes: &Attributes<'_>, path: &str) -> bool {
    contains(&rule.verbs, |verb| attributes.verb == verb)
        && rule.non_resource_urls.iter().any(|own| covers(own, path))
}

/// Whether a non-resource URL of a rule is the path, or a parent of it.
fn covers(own: &str, path: &str) -> bool {
    if own == ALL || own == path {
        return true;
    }
    let prefix = own.strip_suffix('*').unwrap_or(own);
    path.strip_prefix(prefix)
        .is_some_and(|rest| prefix.ends_with('/') || rest.starts_with('/'))
}

/// Whether a list matches: it is the wildcard alone, or one of its items does.
fn contains(list: &[String], is: impl Fn(&str) -> bool) -> bool {
    matches!(list, [one] if one == ALL) || list.iter().any(|item| is(item))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(json: &str) -> Vec<Rule> {
        serde_json::from_str(json).unwrap()
    }

    fn resource(
        group: &'static str,
        resource: &'static str,
        subresource: &'static str,
    ) -> AccessTarget<'static> {
        AccessTarget::Resource {
            group,
            resource,
            subresource,
            namespace: "a",
            name: "x",
        }
    }

    const ALICE: &str = r#"{"kind": "User", "user": {"name": "alice"}}"#;
    const PODS: &str = r#""resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "pods/log"], "namespaces": ["a"]}]"#;

    #[track_caller]
    fn check_subject(subject: &str, user: &User, expected: bool) {
        let rules = rules(&format!(
            r#"[{{"subjects": [{subject}], "nonResourceRules": [{{"verbs": ["*"], "nonResourceURLs": ["*"]}}]}}]"#
        ));
        let attributes = Attributes::new("get", AccessTarget::Path("/version"));
        assert_eq!(matches(&rules, user, &attributes), expected, "{subject}");
    }

    #[track_caller]
    fn check_request(rule: &str, verb: &'static str, target: AccessTarget<'_>, expected: bool) {
        let rules = rules(&format!(r#"[{{"subjects": [{ALICE}], {rule}}}]"#));
        let attributes = Attributes::new(verb, target);
        let user = User::new("alice", &[]);
        assert_eq!(matches(&rules, &user, &attributes), expected, "{verb} {target:?}");
    }

    #[test]
    fn a_subject_is_a_user_a_group_or_a_service_account() {
        let alice = User::new("alice", &["devs"]);
        check_subject(ALICE, &alice, true);
        check_subject(r#"{"kind": "User", "user": {"name": "*"}}"#, &alice, true);
        check_subject(r#"{"kind": "User", "user": {"name": "bob"}}"#, &alice, false);
        check_subject(r#"{"kind": "Group", "group": {"name": "devs"}}"#, &alice, true);
        check_subject(
            r#"{"kind": "Group", "group": {"name": "*"}}"#,
            &User::new("x", &[]),
            true,
        );
        check_subject(r#"{"kind": "Group", "group": {"name": "ops"}}"#, &alice, false);
    }

    #[test]
    fn a_service_account_may_be_any_of_its_namespace() {
        let account = User::new("system:serviceaccount:a:x", &[]);
        let subject = |namespace: &str, name: &str| {
            format!(
                r#"{{"kind": "ServiceAccount", "serviceAccount": {{"namespace": "{namespace}", "name": "{name}"}}}}"#
            )
        };
        check_subject(&subject("a", "x"), &account, true);
        check_subject(&subject("a", "*"), &account, true);
        check_subject(&subject("a", "y"), &account, false);
        check_subject(&subject("", "*"), &account, false);
        check_subject(&subject("b", "*"), &account, false);
        check_subject(&subject("a", "*"), &User::new("a:x", &[]), false);
    }

    #[test]
    fn verbs_resources_groups_and_namespaces_must_all_match() {
        check_request(PODS, "get", resource("", "pods", ""), true);
        check_request(PODS, "get", resource("", "pods", "log"), true);
        check_request(PODS, "get", resource("", "pods", "exec"), false);
        check_request(PODS, "list", resource("", "pods", ""), false);
        check_request(PODS, "get", resource("apps", "pods", ""), false);
        check_request(PODS, "get", AccessTarget::Path("/pods"), false);
        let elsewhere = AccessTarget::Resource {
            group: "",
            resource: "pods",
            subresource: "",
            namespace: "b",
            name: "x",
        };
        check_request(PODS, "get", elsewhere, false);
    }

    #[test]
    fn requests_without_a_namespace_need_the_cluster_scope() {
        let nodes = AccessTarget::Resource {
            group: "",
            resource: "nodes",
            subresource: "",
            namespace: "",
            name: "n",
        };
        let all = r#""verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]"#;
        let rule = format!(r#""resourceRules": [{{{all}, "namespaces": ["*"]}}]"#);
        check_request(&rule, "get", nodes, false);
        check_request(&rule, "get", resource("", "pods", ""), true);
        let rule = format!(r#""resourceRules": [{{{all}, "clusterScope": true}}]"#);
        check_request(&rule, "get", nodes, true);
        check_request(&rule, "get", resource("", "pods", ""), false);
    }

    #[test]
    fn a_path_is_covered_by_its_parents() {
        let rule = |url: &str| {
            format!(r#""nonResourceRules": [{{"verbs": ["get"], "nonResourceURLs": ["{url}"]}}]"#)
        };
        for (url, path, expected) in [
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/ping", true),
            ("/healthz", "/healthz2", false),
            ("/debug/*", "/debug/flags", true),
            ("/debug/*", "/debug", false),
            ("*", "/x", true),
        ] {
            check_request(&rule(url), "get", AccessTarget::Path(path), expected);
        }
        check_request(&rule("*"), "post", AccessTarget::Path("/x"), false);
    }
}

//! Kubernetes' recorded responses about identity, access reviews, rules and escalation, replayed without a server.
//!
//! The caches hold the objects a fresh cluster has. Each recorded request is authenticated, impersonated and authorized
//! as the server does; reviews are handled, and writes of roles and bindings checked for escalation.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use setpoint_api::selector::FieldSelector;
use setpoint_api::{Clock, Gvk, Gvr, Key, Status, Target, User};
use setpoint_cache::Caches;
use setpoint_registry_api::ReviewRequest;
use setpoint_schema::{Tree, to_tree};

use crate::access_control::{AccessControl, AccessOptions};
use crate::authorize::{self, AccessTarget, Attributes};
use crate::fixtures::{ManualClock, TestCaches, now};
use crate::impersonate::{RequestedUser, impersonate};
use crate::keys::SigningKey;
use crate::token::Issuer;
use crate::token::issuer::DEFAULT_URL;

const NOW: &str = "2026-01-01T00:00:00Z";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The prefixes of the recorded cases that need no server.
const CASES: [&str; 7] = ["auth", "imp", "tokenreview", "sar", "ssar", "ssrr", "rbac"];

/// The caches of a fresh cluster.
fn cluster() -> Arc<TestCaches> {
    let objects: Value = serde_json::from_str(&setpoint_reference::bootstrap_objects()).unwrap();
    let objects = objects["objects"].as_array().unwrap();
    let rules = objects
        .iter()
        .filter(|object| object["apiVersion"].as_str().unwrap().starts_with(RBAC));
    TestCaches::with(&rules.cloned().collect::<Vec<_>>())
}

fn access(caches: &Arc<TestCaches>) -> AccessControl {
    let key = SigningKey::from_pem(&SigningKey::generate().unwrap()).unwrap();
    let caches: Arc<dyn Caches> = caches.clone();
    let clock: Arc<dyn Clock> = ManualClock::at(NOW);
    let issuer = Arc::new(Issuer::new(DEFAULT_URL, key, Vec::new()));
    AccessControl::new(&caches, &clock, AccessOptions::new(issuer))
}

/// A request as the server's parser would see it.
struct RecordedRequest {
    verb: &'static str,
    path: String,
    /// Absent for non-resource paths.
    target: Option<Target>,
    name: String,
    fields: FieldSelector,
}

impl RecordedRequest {
    fn of(step: &Value) -> Self {
        let full = step["path"].as_str().unwrap();
        let (path, query) = full.split_once('?').unwrap_or((full, ""));
        let target = target(path);
        let selector = query.strip_prefix("fieldSelector=").unwrap_or_default();
        let fields: FieldSelector = selector.replace("%3D", "=").parse().unwrap();
        let selected = fields.exact_match("metadata.name").unwrap_or_default().to_owned();
        let named = target.as_ref().and_then(|target| target.name.as_ref());
        let verb = match (step["method"].as_str().unwrap(), &target) {
            ("GET", Some(target)) if target.name.is_none() => "list",
            ("GET", _) => "get",
            ("POST", Some(_)) => "create",
            ("POST", None) => "post",
            ("PATCH", _) => "patch",
            ("PUT", _) => "update",
            ("DELETE", Some(target)) if target.name.is_none() => "deletecollection",
            ("DELETE", _) => "delete",
            (method, _) => panic!("unexpected method {method}"),
        };
        Self {
            verb,
            path: path.to_owned(),
            name: named.map_or(selected, ToString::to_string),
            target,
            fields,
        }
    }

    fn attributes(&self) -> Attributes<'_> {
        let object = match &self.target {
            None => AccessTarget::Path(&self.path),
            Some(target) => AccessTarget::Resource {
                group: &target.resource.group,
                resource: &target.resource.resource,
                subresource: "",
                namespace: target.namespace.as_deref().unwrap_or_default(),
                name: &self.name,
            },
        };
        Attributes {
            fields: Some(&self.fields),
            ..Attributes::new(self.verb, object)
        }
    }
}

fn target(path: &str) -> Option<Target> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() && !rest[0].is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let target = Target::in_namespace(Gvr::new(group, version, rest[0]), namespace);
    Some(Target {
        name: rest.get(1).map(|name| (*name).into()),
        ..target
    })
}

/// The user of the step: an administrator, the anonymous user, or the user that the administrator impersonates.
fn sender(access: &AccessControl, step: &Value, request: &RecordedRequest) -> Result<User, Box<Status>> {
    let caller = match step["auth"].as_str() {
        Some(_) => User::anonymous(),
        None => User::new("admin", &[User::MASTERS, User::AUTHENTICATED]),
    };
    let mut requested = RequestedUser::default();
    for (name, value) in step["headers"].as_object().unwrap() {
        let value = value.as_str().unwrap().to_owned();
        match name.as_str() {
            "Impersonate-User" => requested.name = value,
            "Impersonate-Uid" => requested.uid = value,
            "Impersonate-Group" => requested.groups.push(value),
            name => {
                if let Some(key) = name.strip_prefix("Impersonate-Extra-") {
                    requested.extra.insert(key.to_lowercase(), vec![value]);
                }
            }
        }
    }
    if requested == RequestedUser::default() {
        return Ok(caller);
    }
    let found = now(impersonate(
        &*access.authorizer,
        &caller,
        &requested,
        &request.attributes(),
    ))?;
    Ok(found.user)
}

/// Our response: an error, a review with its status, or `None` where the registry would handle the request.
fn respond(access: &AccessControl, caches: &TestCaches, step: &Value) -> Result<Option<Value>, Box<Status>> {
    let request = RecordedRequest::of(step);
    let user = Arc::new(sender(access, step, &request)?);
    now(authorize::check(
        &*access.authorizer,
        &user,
        &request.attributes(),
    ))?;
    let (Some(target), Some(body)) = (&request.target, step["body"].as_str()) else {
        return Ok(None);
    };
    let object: Value = serde_json::from_str(body).unwrap_or_default();
    if target.resource.resource.ends_with("reviews") && request.verb == "create" {
        let review = review(access, caches, &user, target, &object)?;
        return Ok(Some(review));
    }
    if target.resource.group == RBAC {
        write(access, caches, &user, target, object)?;
    }
    Ok(None)
}

fn review(
    access: &AccessControl,
    caches: &TestCaches,
    user: &Arc<User>,
    target: &Target,
    object: &Value,
) -> Result<Value, Box<Status>> {
    let kinds = [
        ("tokenreviews", "TokenReview"),
        ("selfsubjectreviews", "SelfSubjectReview"),
        ("subjectaccessreviews", "SubjectAccessReview"),
        ("localsubjectaccessreviews", "LocalSubjectAccessReview"),
        ("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        ("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    ];
    let (_, kind) = kinds
        .iter()
        .find(|(plural, _)| *plural == target.resource.resource)
        .unwrap();
    let gvk = Gvk::new(&target.resource.group, &target.resource.version, kind);
    let request = ReviewRequest {
        user,
        gvk: &gvk,
        target,
        parent: None,
        body: to_tree(object).unwrap(),
        caches,
        now: NOW.parse().unwrap(),
    };
    Ok(json_of(&now(access.reviews().review(request))?))
}

/// A create or a merge patch of a role or a binding, as far as `rules` and labels go.
fn write(
    access: &AccessControl,
    caches: &TestCaches,
    user: &User,
    target: &Target,
    object: Value,
) -> Result<(), Box<Status>> {
    let old = target.key().map(|key| stored(caches, target, &key).unwrap());
    let mut new = old.clone().unwrap_or_else(|| json!({}));
    merge(&mut new, object);
    new["metadata"]["namespace"] = json!(target.namespace.as_deref().unwrap_or_default());
    let (new_tree, old_tree) = (to_tree(&new).unwrap(), old.map(|old| to_tree(&old).unwrap()));
    let escalation = access.escalation();
    now(escalation.check(user, &target.resource, &new_tree, old_tree.as_ref()))?;
    caches.put(&typed(new, &target.resource));
    Ok(())
}

fn stored(caches: &TestCaches, target: &Target, key: &Key) -> Option<Value> {
    let cache = caches.cache(&target.resource.group_resource())?;
    cache.find(key)?.decode().ok()
}

fn merge(old: &mut Value, new: Value) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in new {
                merge(old.entry(key).or_insert(Value::Null), value);
            }
        }
        (old, new) => *old = new,
    }
}

fn typed(mut object: Value, resource: &Gvr) -> Value {
    let kind = match resource.resource.as_str() {
        "roles" => "Role",
        "rolebindings" => "RoleBinding",
        "clusterroles" => "ClusterRole",
        _ => "ClusterRoleBinding",
    };
    object["apiVersion"] = json!(resource.api_version().as_str());
    object["kind"] = json!(kind);
    object
}

fn json_of(tree: &Tree) -> Value {
    let mut json = Vec::new();
    setpoint_schema::write::write_tree(tree, &mut json);
    serde_json::from_slice(&json).unwrap()
}

/// The recorded body as it is compared: ids and times out of the way, lists of rules sorted.
fn normal(mut body: Value) -> Value {
    if body["metadata"].is_null() {
        body["metadata"] = json!({});
    }
    if let Some(metadata) = body["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        if let Some(time) = metadata.get_mut("creationTimestamp") {
            *time = json!("<time>");
        }
    }
    for rules in ["resourceRules", "nonResourceRules"] {
        if let Some(list) = body["status"][rules].as_array_mut() {
            list.sort_by_key(Value::to_string);
        }
    }
    without_empty(&mut body);
    body
}

/// Removes what the canonical form omits.
fn without_empty(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, value| {
            without_empty(value);
            !(value == "" || *value == json!([]))
        });
    }
}

/// An empty text means: no difference.
fn difference(access: &AccessControl, caches: &TestCaches, step: &Value) -> String {
    let expected = &step["expect"];
    let code = expected["status"].as_u64().unwrap();
    let message = expected["body"]["message"].as_str().unwrap_or_default();
    match respond(access, caches, step) {
        Err(status) if u64::from(status.code) != code => {
            format!("{} instead of {code}: {}", status.code, status.message)
        }
        Err(status) if !message.is_empty() && status.message != message => {
            format!("{:?} instead of {message:?}", status.message)
        }
        Err(_) => String::new(),
        Ok(_) if matches!(code, 401 | 403 | 422) => format!("passed instead of {code} {message:?}"),
        Ok(Some(body)) => {
            let (actual, expected) = (normal(body), normal(expected["body"].clone()));
            let same = ["metadata", "spec", "status"]
                .iter()
                .all(|part| actual[part] == expected[part]);
            if same {
                String::new()
            } else {
                format!("{actual} instead of {expected}")
            }
        }
        Ok(None) => String::new(),
    }
}

fn replay(caches: &Arc<TestCaches>, case: &Value) -> Vec<String> {
    let access = access(caches);
    for step in case["setup"].as_array().into_iter().flatten() {
        let _ = respond(&access, caches, step);
    }
    let steps = case["steps"].as_array().unwrap().iter().enumerate();
    let differences = steps.map(|(at, step)| (at, difference(&access, caches, step)));
    let differences = differences.filter(|(_, difference)| !difference.is_empty());
    differences
        .map(|(at, difference)| format!("{} step {at}: {difference}", case["id"]))
        .collect()
}

#[test]
fn recorded_requests_are_decided_as_kubernetes_did() {
    let caches = cluster();
    let text = setpoint_reference::transcript("http");
    let cases = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_selected = |case: &Value| {
        let id = case["id"].as_str().unwrap().trim_start_matches("http.");
        let prefix = id.split('-').next().unwrap();
        CASES.contains(&prefix.trim_end_matches('2')) || prefix == "escalate"
    };
    let (mut count, mut differences) = (0, Vec::new());
    for case in cases.filter(is_selected) {
        count += 1;
        differences.extend(replay(&caches, &case));
    }
    assert!(count > 30, "only {count} cases were found");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// A fresh cluster where `view`, `edit` and `admin` are bound in `default`.
static FRESH: LazyLock<AccessControl> = LazyLock::new(|| {
    let caches = cluster();
    for role in ["view", "edit", "admin"] {
        aggregate(&caches, role);
        caches.put(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": "default"},
            "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [{"kind": "User", "name": role}],
        }));
    }
    access(&caches)
});

/// May the user do this in a fresh cluster?
#[track_caller]
fn check(user: &User, verb: &str, resource: &str, expected: bool) {
    let (group, resource) = resource.split_once('/').unwrap();
    let object = match group {
        "path" => AccessTarget::Path(resource),
        group => AccessTarget::Resource {
            group,
            resource,
            subresource: "",
            namespace: "default",
            name: "x",
        },
    };
    let decision = FRESH
        .authorizer
        .authorize(user, &Attributes::new(verb, object))
        .wait();
    let allowed = decision.is_allowed();
    assert_eq!(allowed, expected, "{} {verb} {group}/{resource}", user.name);
}

/// Aggregates the rules of a role, as the controller does in a running cluster.
fn aggregate(caches: &TestCaches, role: &str) {
    let cache = caches
        .cache(&setpoint_api::GroupResource::new(RBAC, "clusterroles"))
        .unwrap();
    let parts = match role {
        "view" => vec!["view"],
        "edit" => vec!["view", "edit"],
        _ => vec!["view", "edit", "admin"],
    };
    let mut rules = Vec::new();
    for object in cache.snapshot().iter() {
        let object: Value = object.decode().unwrap();
        let label = |part: &str| format!("rbac.authorization.k8s.io/aggregate-to-{part}");
        if parts
            .iter()
            .any(|part| object["metadata"]["labels"][label(part)] == "true")
        {
            rules.extend(object["rules"].as_array().cloned().unwrap_or_default());
        }
    }
    let mut object: Value = cache.find(&Key::new("", role)).unwrap().decode().unwrap();
    object["rules"] = json!(rules);
    caches.put(&object);
}

#[test]
fn the_default_roles_grant_their_permissions() {
    let authenticated = User::new("someone", &[User::AUTHENTICATED]);
    check(
        &authenticated,
        "create",
        "authorization.k8s.io/selfsubjectaccessreviews",
        true,
    );
    check(
        &authenticated,
        "create",
        "authentication.k8s.io/selfsubjectreviews",
        true,
    );
    check(&authenticated, "get", "path//apis/apps", true);
    check(&User::anonymous(), "get", "path//version", true);
    let view = User::new("view", &[]);
    check(&view, "get", "/pods", true);
    check(&view, "get", "/secrets", false);
    check(&view, "create", "/pods", false);
    check(&view, "get", "rbac.authorization.k8s.io/roles", false);
    let edit = User::new("edit", &[]);
    check(&edit, "create", "/pods", true);
    check(&edit, "get", "/secrets", true);
    check(&edit, "create", "rbac.authorization.k8s.io/roles", false);
    let admin = User::new("admin", &[]);
    check(&admin, "create", "rbac.authorization.k8s.io/rolebindings", true);
    check(&admin, "delete", "/nodes", false);
}

/// A user with no rights gets 403 on everything but discovery and health.
#[test]
fn a_user_without_permissions_may_only_read_discovery_and_health() {
    let unprivileged = User::new("nobody", &[User::AUTHENTICATED]);
    for path in [
        "/api",
        "/apis",
        "/openapi/v2",
        "/healthz",
        "/livez",
        "/readyz",
        "/version",
    ] {
        check(&unprivileged, "get", &format!("path/{path}"), true);
    }
    for path in ["/metrics", "/logs", "/livez/etcd"] {
        check(&unprivileged, "get", &format!("path/{path}"), false);
    }
    for resource in [
        "/pods",
        "/secrets",
        "/nodes",
        "apps/deployments",
        "rbac.authorization.k8s.io/clusterroles",
    ] {
        for verb in [
            "get",
            "list",
            "watch",
            "create",
            "update",
            "patch",
            "delete",
            "deletecollection",
        ] {
            check(&unprivileged, verb, resource, false);
        }
    }
}

/// A service account cannot read another namespace's secrets.
#[test]
fn a_service_account_has_no_permissions_by_default() {
    let account = User::new(
        "system:serviceaccount:other:default",
        &[
            "system:serviceaccounts",
            "system:serviceaccounts:other",
            User::AUTHENTICATED,
        ],
    );
    check(&account, "get", "/secrets", false);
    check(&account, "list", "/secrets", false);
    check(&account, "get", "path//.well-known/openid-configuration", true);
}

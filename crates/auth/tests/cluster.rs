//! Access control over a real registry: bootstrap roles, tokens, reviews, and writes of users with few permissions.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use setpoint_api::call::Body;
use setpoint_api::options::{PatchType, WriteOptions};
use setpoint_api::{Clock, Gvr, Key, Payload, Request, Serve, Status, SystemClock, Target, User, Verb};
use setpoint_auth::authorize::{AccessTarget, Attributes};
use setpoint_auth::token::issuer::DEFAULT_URL;
use setpoint_auth::{
    AccessControl, AccessOptions, Authenticate as _, Authorize as _, Credentials, Issuer, keys::SigningKey,
};
use setpoint_cache::Caches;
use setpoint_registry::{Registry, WatchCaches};
use setpoint_registry_api::AdmitAll;
use setpoint_store::Store;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const RBAC: &str = "rbac.authorization.k8s.io";

struct Cluster {
    access: AccessControl,
    registry: Arc<Registry>,
    _running: JoinSet<()>,
}

impl Cluster {
    async fn start() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let key = SigningKey::from_pem(&SigningKey::generate().unwrap()).unwrap();
        let times = clock.clone();
        let store = Store::memory(setpoint_store::Config::new(Arc::new(move || times.millis())));
        let kinds = setpoint_kinds::builtin();
        let bootstrap = setpoint_kinds::bootstrap::objects(&kinds, None);
        let watch_caches = WatchCaches::open(store, Arc::new(kinds));
        let caches: Arc<dyn Caches> = watch_caches.clone();
        let issuer = Arc::new(Issuer::new(DEFAULT_URL, key, Vec::new()));
        let access = AccessControl::new(&caches, &clock, AccessOptions::new(issuer));
        let config = setpoint_registry::Config {
            caches: watch_caches,
            bootstrap,
            admit: Arc::new(access.guard(AdmitAll)),
            virtual_resources: Arc::new(access.reviews()),
            webhooks: Arc::new(setpoint_registry_api::NoWebhooks),
            clock,
            event_ttl: Duration::from_secs(3600),
            allow_privileged: false,
        };
        let registry = Registry::new(config);
        let (mut running, own) = (JoinSet::new(), registry.clone());
        running.spawn(async move { own.run(CancellationToken::new()).await.unwrap() });
        registry.started().await;
        Self {
            access,
            registry,
            _running: running,
        }
    }

    /// Creates an object as a user; returns the stored object or the virtual one.
    async fn create(&self, user: User, target: Target, object: Value) -> Result<Value, Status> {
        let verb = Verb::Create(Payload::json(object.to_string()), WriteOptions::default());
        let user = Arc::new(user);
        let response = self.registry.call(Request { user, target, verb }).await?;
        let json = match response.body {
            Body::Object(object) => object.json().clone(),
            Body::Json(json) => json,
            other => panic!("{other:?} is no document"),
        };
        Ok(serde_json::from_slice(&json).unwrap())
    }

    /// Creates an object as an administrator and waits until the caches have it.
    async fn put(&self, group: &str, resource: &str, namespace: &str, object: Value) {
        let gvr = Gvr::new(group, "v1", resource);
        let target = Target::in_namespace(gvr.clone(), namespace);
        let stored = self.create(admin(), target, object).await.unwrap();
        let version = stored["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        let cache = self.registry.cache(&gvr.group_resource()).unwrap();
        cache.reached(version).await;
    }

    async fn token(&self, account: &str) -> String {
        let accounts = Gvr::new("", "v1", "serviceaccounts");
        let target = Target::object(accounts, &Key::new("default", account)).subresource("token");
        let object = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let response = self.create(admin(), target, object).await.unwrap();
        response["status"]["token"].as_str().unwrap().to_owned()
    }

    /// The user of a token, or the error message.
    fn bearer(&self, token: &str) -> Result<Arc<User>, String> {
        let authorization = format!("Bearer {token}");
        let credentials = Credentials {
            authorization: Some(&authorization),
            ..Credentials::default()
        };
        let user = self.access.authenticate();
        let user = user.authenticate(&credentials).wait();
        user.map(Option::unwrap).map_err(|error| error.0)
    }

    fn may(&self, user: &User, verb: &str, resource: &str, namespace: &str) -> bool {
        let object = AccessTarget::Resource {
            group: "",
            resource,
            subresource: "",
            namespace,
            name: "x",
        };
        let attributes = Attributes::new(verb, object);
        self.access
            .authorizer
            .authorize(user, &attributes)
            .wait()
            .is_allowed()
    }

    /// A role and its binding to a user, both in `default`.
    async fn grant(&self, user: &str, rules: Value) {
        let meta = json!({"name": user, "namespace": "default"});
        self.put(RBAC, "roles", "default", json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta, "rules": rules}))
            .await;
        self.put(
            RBAC,
            "rolebindings",
            "default",
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": meta,
                "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": user},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
            }),
        )
        .await;
    }
}

fn admin() -> User {
    User::new("admin", &[User::MASTERS, User::AUTHENTICATED])
}

/// A requested token names its service account, which may do what it is granted and nothing else.
#[tokio::test]
async fn a_service_account_authenticates_with_its_token() {
    let cluster = Cluster::start().await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web", "namespace": "default"}});
    cluster.put("", "serviceaccounts", "default", account).await;
    let token = cluster.token("web").await;
    let user = cluster.bearer(&token).unwrap();
    assert_eq!(user.name, "system:serviceaccount:default:web");
    assert!(user.is_in(User::AUTHENTICATED), "{user:?}");
    assert!(!cluster.may(&user, "get", "secrets", "default"));
    let forged = format!("{}x", &token[..token.len() - 1]);
    assert!(cluster.bearer(&forged).is_err());
}

/// The reviews go through the registry, and use the bootstrap roles.
#[tokio::test]
async fn reviews_are_decided_by_the_stored_rules() {
    let cluster = Cluster::start().await;
    let target = Target::all(Gvr::new("authorization.k8s.io", "v1", "selfsubjectaccessreviews"));
    let object = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                          "spec": {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}});
    let user = User::new("someone", &[User::AUTHENTICATED]);
    let response = cluster.create(user, target, object).await.unwrap();
    assert_eq!(
        response["status"],
        json!({"allowed": true, "reason": r#"RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated""#})
    );
}

/// The fields of a review have an owner, as those of any object.
#[tokio::test]
async fn a_review_has_managed_fields() {
    let cluster = Cluster::start().await;
    let target = Target::all(Gvr::new("authorization.k8s.io", "v1", "subjectaccessreviews"));
    let object = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": "x", "groups": [], "resourceAttributes": {"verb": "get", "resource": "pods", "group": "", "namespace": "a"},
    }});
    let response = cluster.create(admin(), target, object).await.unwrap();
    let owner = &response["metadata"]["managedFields"][0];
    assert_eq!(owner["operation"], "Update");
    assert_eq!(
        owner["fieldsV1"],
        json!({"f:spec": {"f:resourceAttributes": {".": {}, "f:namespace": {}, "f:resource": {}, "f:verb": {}}, "f:user": {}}})
    );
    assert_eq!(
        response["spec"],
        json!({"resourceAttributes": {"namespace": "a", "verb": "get", "resource": "pods"}, "user": "x"})
    );
}

/// Escalation is rejected in the write itself.
#[tokio::test]
async fn a_role_with_rules_its_author_lacks_is_not_written() {
    let cluster = Cluster::start().await;
    cluster
        .grant(
            "author",
            json!([{"apiGroups": [RBAC], "resources": ["roles"], "verbs": ["create"]}]),
        )
        .await;
    let author = || User::new("author", &[User::AUTHENTICATED]);
    let target = || Target::in_namespace(Gvr::new(RBAC, "v1", "roles"), "default");
    let role = |resource: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"},
               "rules": [{"apiGroups": [RBAC], "resources": [resource], "verbs": ["create"]}]})
    };
    let status = cluster
        .create(author(), target(), role("rolebindings"))
        .await
        .unwrap_err();
    assert_eq!(status.code, 403);
    assert!(status.message.contains("not currently held"), "{status}");
    cluster.create(author(), target(), role("roles")).await.unwrap();
}

/// An update or an apply of an object that does not exist creates it.
#[tokio::test]
async fn a_create_by_another_verb_requires_permission_to_create() {
    let cluster = Cluster::start().await;
    let rules = |verbs: &[&str]| json!([{"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"], "verbs": verbs}]);
    cluster.grant("writer", rules(&["update", "patch"])).await;
    cluster
        .grant("creator", rules(&["update", "patch", "create"]))
        .await;
    let object = |user: &str, group: &str, resource: &str, verb: Verb| Request {
        user: Arc::new(User::new(user, &[User::AUTHENTICATED])),
        target: Target::object(Gvr::new(group, "v1", resource), &Key::new("default", "x")),
        verb,
    };
    let apply = |user: &str| {
        let payload =
            Payload::json(r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}"#);
        let options = WriteOptions {
            field_manager: Some("f".into()),
            ..WriteOptions::default()
        };
        object(
            user,
            "",
            "configmaps",
            Verb::Patch(PatchType::Apply, payload, options),
        )
    };
    let update = |user: &str| {
        let lease =
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"}});
        let payload = Payload::json(lease.to_string());
        object(
            user,
            "coordination.k8s.io",
            "leases",
            Verb::Update(payload, WriteOptions::default()),
        )
    };
    let message = async |request: Request| cluster.registry.call(request).await.unwrap_err().message;
    assert_eq!(
        message(apply("writer")).await,
        r#"configmaps "x" is forbidden: User "writer" cannot create resource "configmaps" in API group "" in the namespace "default""#
    );
    assert_eq!(
        message(update("writer")).await,
        r#"leases.coordination.k8s.io "x" is forbidden: User "writer" cannot create resource "leases" in API group "coordination.k8s.io" in the namespace "default""#
    );
    for request in [apply("creator"), update("creator")] {
        assert!(cluster.registry.call(request).await.unwrap().created);
    }
    let applied = cluster.registry.call(apply("writer")).await.unwrap();
    assert!(!applied.created);
}

/// A binding applies from the next request on.
#[tokio::test]
async fn a_new_binding_applies_at_once() {
    let cluster = Cluster::start().await;
    let reader = User::new("reader", &[User::AUTHENTICATED]);
    assert!(!cluster.may(&reader, "get", "secrets", "default"));
    cluster
        .grant(
            "reader",
            json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]),
        )
        .await;
    assert!(cluster.may(&reader, "get", "secrets", "default"));
    assert!(!cluster.may(&reader, "get", "secrets", "kube-system"));
}

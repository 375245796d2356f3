//! Clusters that a server hosts: their API, their isolation from each other, and forks, with a real process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use cluster::{Cluster, Kubectl, manifest};
use serde_json::{Value, json};
use setpoint_client::Kubeconfig;
use setpoint_conformance::wire::{Caller, Client, Endpoint, Request, Response};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A server that hosts clusters, and a client of it.
struct Host {
    server: Cluster,
    client: Client,
}

/// A hosted cluster, by the administrator's token.
struct HostedCluster {
    path: String,
    token: String,
    kubeconfig: String,
}

impl Host {
    fn start() -> Self {
        let server = Cluster::new(&[
            "--memory",
            "--host-clusters",
            "--controllers",
            "none",
            "--nodes",
            "0",
        ]);
        let endpoint = Endpoint::of_kubeconfig(&server.kubeconfig()).unwrap();
        Self {
            server,
            client: Client::new(endpoint),
        }
    }

    /// Sends a request as this caller. A body makes it a POST of JSON.
    fn send(&mut self, caller: Caller, method: &str, path: &str, body: Option<Value>) -> Response {
        let mut request = Request::new(method, path);
        if let Some(body) = body {
            request = request.body("application/json", body.to_string());
        }
        request.caller = caller;
        self.client.send(&request).unwrap()
    }

    /// Sends a request as the administrator of the server. Returns the code and the JSON of the response.
    fn administer(&mut self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let response = self.send(Caller::Owner, method, path, body);
        (response.status, response.json().unwrap_or_default())
    }

    #[track_caller]
    fn create(&mut self, path: &str, name: &str) -> HostedCluster {
        let (code, cluster) = self.administer("POST", path, Some(json!({ "name": name })));
        assert_eq!((code, &cluster["name"]), (201, &json!(name)), "{cluster}");
        let kubeconfig = cluster["kubeconfig"].as_str().unwrap().to_owned();
        let parsed = Kubeconfig::parse(&kubeconfig).unwrap();
        let server = format!("{}/clusters/{name}", self.server.connection().server);
        assert_eq!(parsed.clusters[0].cluster.server, server);
        HostedCluster {
            path: format!("/clusters/{name}"),
            token: parsed.users[0].user.token.clone().unwrap(),
            kubeconfig,
        }
    }

    /// Sends a request to a hosted cluster as its administrator.
    fn request(
        &mut self,
        hosted: &HostedCluster,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let response = self.send(hosted.caller(), method, &format!("{}{path}", hosted.path), body);
        (response.status, response.json().unwrap_or_default())
    }

    /// Creates a ConfigMap in a hosted cluster, and returns its resource version.
    #[track_caller]
    fn create_map(&mut self, hosted: &HostedCluster, name: &str) -> u64 {
        let body = json!({"metadata": {"name": name}});
        let (code, map) = self.request(hosted, "POST", MAPS, Some(body));
        assert_eq!(code, 201, "{map}");
        map["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    }

    /// The names of the ConfigMaps of a hosted cluster, without that of the root CA.
    fn maps(&mut self, hosted: &HostedCluster) -> Vec<String> {
        let (code, list) = self.request(hosted, "GET", MAPS, None);
        assert_eq!(code, 200, "{list}");
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|map| map["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }
}

impl HostedCluster {
    fn caller(&self) -> Caller {
        Caller::Header(format!("Bearer {}", self.token))
    }
}

fn crd(plural: &str) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}
            }}}]
        }
    })
}

#[test]
fn two_clusters_share_no_objects_and_no_kinds() {
    let mut host = Host::start();
    let (a, b) = (host.create("/clusters", "a"), host.create("/clusters", "b"));
    host.create_map(&a, "only-in-a");
    assert_eq!(host.maps(&a), ["only-in-a"]);
    assert_eq!(host.maps(&b), [""; 0]);
    let (code, _) = host.request(&a, "POST", CRDS, Some(crd("widgets")));
    assert_eq!(code, 201);
    let (code, _) = host.request(&b, "GET", "/apis/example.com/v1/widgets", None);
    assert_eq!(code, 404);
    let (code, _) = host.administer("GET", "/apis/example.com/v1/widgets", None);
    assert_eq!(code, 404);
}

#[test]
fn credentials_of_a_cluster_are_not_valid_in_another() {
    let mut host = Host::start();
    let (a, b) = (
        host.create("/clusters", "a"),
        host.create("/clusters/root/fork", "b"),
    );
    let token = json!({"spec": {}});
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let (code, account) = host.request(&a, "POST", path, Some(token));
    assert_eq!(code, 201, "{account}");
    let account = Caller::Header(format!("Bearer {}", account["status"]["token"].as_str().unwrap()));
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let mut codes = |caller: Caller| {
        ["", "/clusters/a", "/clusters/b"].map(|base| {
            let path = format!("{base}{path}");
            host.send(caller.clone(), "POST", &path, Some(json!({}))).status
        })
    };
    assert_eq!(codes(a.caller()), [401, 201, 401]);
    assert_eq!(codes(b.caller()), [401, 401, 201]);
    assert_eq!(codes(account), [401, 201, 401]);
    // The client certificate of the server's own administrator.
    assert_eq!(codes(Caller::Owner), [201, 401, 401]);
}

#[test]
fn a_fork_has_the_objects_of_its_origin_and_neither_sees_writes_of_the_other() {
    let mut host = Host::start();
    let origin = host.create("/clusters", "origin");
    let (code, _) = host.request(&origin, "POST", CRDS, Some(crd("widgets")));
    assert_eq!(code, 201);
    let version = host.create_map(&origin, "before");
    let fork = host.create("/clusters/origin/fork", "fork");
    assert_eq!(host.maps(&fork), ["before"]);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let (code, created) = host.request(&fork, "POST", widgets, Some(widget));
    assert_eq!(code, 201, "{created}");
    assert!(host.create_map(&fork, "in-fork") > version, "revisions continue");
    host.create_map(&origin, "in-origin");
    assert_eq!(host.maps(&fork), ["before", "in-fork"]);
    assert_eq!(host.maps(&origin), ["before", "in-origin"]);
    let (_, list) = host.request(&origin, "GET", widgets, None);
    assert_eq!(list["items"], json!([]));
}

#[test]
fn watches_of_a_fork_continue_from_a_revision_of_its_origin() {
    let mut host = Host::start();
    let origin = host.create("/clusters", "origin");
    let version = host.create_map(&origin, "first");
    host.create_map(&origin, "second");
    let fork = host.create("/clusters/origin/fork", "fork");
    host.create_map(&fork, "third");
    host.create_map(&origin, "other");
    let query = format!("{MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=1");
    let mut names = |hosted: &HostedCluster| -> Vec<String> {
        let path = format!("{}{query}", hosted.path);
        let response = host.send(hosted.caller(), "GET", &path, None);
        let text = response.text();
        let events = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let name = |event: Value| event["object"]["metadata"]["name"].as_str().unwrap().to_owned();
        events.map(name).collect()
    };
    assert_eq!(names(&fork), ["second", "third"]);
    assert_eq!(names(&origin), ["second", "other"]);
}

#[test]
fn a_deleted_cluster_is_not_found_and_its_name_is_free() {
    let mut host = Host::start();
    let a = host.create("/clusters", "a");
    host.create_map(&a, "m");
    let (code, list) = host.administer("GET", "/clusters", None);
    assert_eq!((code, &list["items"][0]["name"]), (200, &json!("a")));
    assert_eq!(list["items"][0].get("kubeconfig"), None);
    let (code, status) = host.administer("DELETE", "/clusters/a", None);
    assert_eq!((code, &status["status"]), (200, &json!("Success")));
    let (code, status) = host.request(&a, "GET", MAPS, None);
    assert_eq!(
        (code, status["message"].as_str()),
        (404, Some("clusters \"a\" not found"))
    );
    let again = host.create("/clusters", "a");
    assert_eq!(host.maps(&again), [""; 0]);
    let (code, _) = host.request(&a, "GET", MAPS, None);
    assert_eq!(code, 401, "the token was that of the deleted cluster");
}

/// Sends a request as the administrator, and checks the code and a part of the message.
#[track_caller]
fn check(host: &mut Host, (method, path): (&str, &str), body: Option<Value>, code: u16, message: &str) {
    let (actual, status) = host.administer(method, path, body);
    let text = status["message"].as_str().unwrap_or_default();
    assert!(actual == code && text.contains(message), "{actual} {status}");
}

#[test]
fn invalid_options_get_a_status_that_names_the_problem() {
    let mut host = Host::start();
    host.create("/clusters", "a");
    for (options, code, message) in [
        (json!({"name": "a"}), 409, "clusters \"a\" already exists"),
        (json!({"name": "root"}), 409, "clusters \"root\" already exists"),
        (json!({"name": "A b"}), 400, "name: Invalid value"),
        (json!({"nodse": 1}), 400, "unknown field `nodse`"),
        (json!({"nodes": 1_000_000}), 400, "nodes: must be at most"),
        (
            json!({"controllers": ["bogus"]}),
            400,
            "unknown controller \"bogus\"",
        ),
    ] {
        check(&mut host, ("POST", "/clusters"), Some(options), code, message);
    }
}

#[test]
fn a_cluster_that_does_not_exist_is_named() {
    let mut host = Host::start();
    let not_found = "clusters \"b\" not found";
    for request in [
        ("POST", "/clusters/b/fork"),
        ("GET", "/clusters/b"),
        ("DELETE", "/clusters/b"),
        ("GET", "/clusters/b/api"),
    ] {
        check(&mut host, request, None, 404, not_found);
    }
    let own = "the cluster of the server itself";
    check(&mut host, ("DELETE", "/clusters/root"), None, 403, own);
    let body = Some(json!({}));
    check(&mut host, ("PUT", "/clusters/b"), body, 405, "does not allow");
}

#[test]
fn only_users_that_are_authorized_for_the_path_reach_the_api_of_the_host() {
    let mut host = Host::start();
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let (code, account) = host.administer("POST", path, Some(json!({"spec": {}})));
    assert_eq!(code, 201, "{account}");
    let account = Caller::Header(format!("Bearer {}", account["status"]["token"].as_str().unwrap()));
    for caller in [Caller::Anonymous, account.clone()] {
        for (method, path) in [
            ("GET", "/clusters"),
            ("POST", "/clusters"),
            ("POST", "/clusters/root/fork"),
            ("GET", "/clusters/a"),
            ("DELETE", "/clusters/a"),
        ] {
            let response = host.send(caller.clone(), method, path, None);
            assert_eq!(response.status, 403, "{method} {path}: {}", response.text());
        }
    }
    let role = json!({"metadata": {"name": "reader"}, "rules": [{"nonResourceURLs": ["/clusters"], "verbs": ["get"]}]});
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    assert_eq!(
        host.administer("POST", &format!("{rbac}/clusterroles"), Some(role))
            .0,
        201
    );
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]
    });
    assert_eq!(
        host.administer("POST", &format!("{rbac}/clusterrolebindings"), Some(binding))
            .0,
        201
    );
    // The authorizer reads the binding from a cache, which may lag behind the write.
    let is_allowed = |_| host.send(account.clone(), "GET", "/clusters", None).status == 200;
    assert!((0..1000).any(is_allowed));
    assert_eq!(host.send(account, "POST", "/clusters", None).status, 403);
}

#[test]
fn a_server_without_the_flag_hosts_nothing() {
    let server = Cluster::new(&["--memory", "--controllers", "none"]);
    let mut client = Client::new(Endpoint::of_kubeconfig(&server.kubeconfig()).unwrap());
    for path in ["/clusters", "/clusters/a/api", "/clusters/root/api"] {
        assert_eq!(
            client.send(&Request::new("GET", path)).unwrap().status,
            404,
            "{path}"
        );
    }
}

#[test]
fn openid_discovery_of_a_cluster_names_its_own_urls() {
    let mut host = Host::start();
    let a = host.create("/clusters", "a");
    let url = format!("{}/clusters/a", host.server.connection().server);
    let (code, discovery) = host.request(&a, "GET", "/.well-known/openid-configuration", None);
    assert_eq!(code, 200, "{discovery}");
    assert_eq!(discovery["issuer"], json!(url));
    assert_eq!(discovery["jwks_uri"], json!(format!("{url}/openid/v1/jwks")));
}

#[test]
fn kubectl_works_below_the_prefix_of_a_cluster() {
    let mut host = Host::start();
    let cluster = host.create("/clusters", "a");
    let dir = host.server.dir.path();
    let kubeconfig = manifest(dir, "a.kubeconfig", &cluster.kubeconfig);
    let Some(kubectl) = host.server.kubectl() else {
        return;
    };
    let kubectl: Kubectl = kubectl.with_kubeconfig(&kubeconfig);
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: b}\n";
    let map = manifest(dir, "map.yaml", map);
    assert!(
        kubectl
            .run(&format!("apply -f {map}"))
            .contains("configmap/m created")
    );
    assert!(
        kubectl
            .run(&format!("apply --server-side -f {map}"))
            .contains("serverside-applied")
    );
    assert!(kubectl.run("get configmaps").contains('m'));
    assert!(kubectl.run("api-resources").contains("deployments"));
    assert!(
        kubectl
            .run("explain deployment.spec.replicas")
            .contains("FIELD: replicas")
    );
    assert!(kubectl.run("auth can-i create pods").contains("yes"));
    assert!(kubectl.run("auth whoami").contains("kubernetes-admin"));
    assert!(kubectl.run("get --raw /clusters/a/").contains("/openapi/v3"));
    assert!(kubectl.run("get --raw /clusters/a/readyz").contains("ok"));
    let widgets = manifest(dir, "crd.json", &typed_crd().to_string());
    kubectl.run(&format!("create -f {widgets}"));
    kubectl.run("wait --for condition=established crd/widgets.example.com");
    assert!(kubectl.run("explain widget.spec.size").contains("FIELD: size"));
    let mut watch = kubectl.follow("get configmaps --watch -o name");
    watch.until(&["configmap/m"]);
    kubectl.run("create configmap later");
    watch.until(&["configmap/later"]);
    let own = host.server.kubectl().unwrap();
    assert!(!own.run("get configmaps -o name").contains("configmap/m"));
}

fn typed_crd() -> Value {
    let mut crd = crd("widgets");
    crd["apiVersion"] = json!("apiextensions.k8s.io/v1");
    crd["kind"] = json!("CustomResourceDefinition");
    crd
}

#[test]
fn controllers_and_nodes_run_in_a_fork_if_its_options_enable_them() {
    let mut host = Host::start();
    let options = json!({"name": "full", "controllers": ["*"], "nodes": 1});
    let (code, cluster) = host.administer("POST", "/clusters/root/fork", Some(options));
    assert_eq!(code, 201, "{cluster}");
    let kubeconfig = cluster["kubeconfig"].as_str().unwrap();
    let kubeconfig = manifest(host.server.dir.path(), "full.kubeconfig", kubeconfig);
    let Some(kubectl) = host.server.kubectl() else {
        return;
    };
    let kubectl = kubectl.with_kubeconfig(&kubeconfig);
    kubectl.run("create deployment web --image=nginx");
    kubectl.run("wait --for condition=available --timeout=60s deployment/web");
    let own = host.server.kubectl().unwrap();
    assert_eq!(own.run("get nodes -o name"), "");
}

//! Paths, row by row.

use super::*;

/// Formats a request as `verb group/version/resource[/subresource] namespace/name`, or as `verb path`.
fn formatted(method: &str, url: &str) -> String {
    let (path, query) = url
        .split_once('?')
        .map_or((url, None), |(path, query)| (path, Some(query)));
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let query = Query::parse(query);
    let info = parse(&method, path, &query);
    match &info {
        RequestInfo::NonResource { path, .. } => format!("{} {path}", info.verb()),
        RequestInfo::Resource(request) => {
            let Target {
                resource,
                namespace,
                name,
                subresource,
            } = &request.target;
            let subresource = subresource
                .as_ref()
                .map(|name| format!("/{name}"))
                .unwrap_or_default();
            let subpath = if request.has_subpath { "/.." } else { "" };
            let Gvr {
                group,
                version,
                resource,
            } = resource;
            let (namespace, name) = (
                namespace.as_deref().unwrap_or("-"),
                name.as_deref().unwrap_or("-"),
            );
            format!(
                "{} {group}/{version}/{resource}{subresource}{subpath} {namespace}/{name}",
                info.verb()
            )
        }
    }
}

#[track_caller]
fn check(method: &str, url: &str, expected: &str) {
    assert_eq!(formatted(method, url), expected);
}

/// Checks the authorization attributes, as `namespace/name`.
#[track_caller]
fn check_access(url: &str, expected: &str) {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let query = Query::parse(Some(query));
    let info = parse(&Method::GET, path, &query);
    let AccessTarget::Resource { namespace, name, .. } = info.attributes().target else {
        panic!("{url} is a path")
    };
    assert_eq!(format!("{namespace}/{name}"), expected);
}

#[test]
fn the_core_group_has_no_name_in_the_path() {
    check("GET", "/api/v1/nodes", "list /v1/nodes -/-");
    check("GET", "/api/v1/nodes/n1", "get /v1/nodes -/n1");
    check("GET", "/api/v1/pods", "list /v1/pods -/-");
    check("GET", "/api/v1/namespaces/a/pods", "list /v1/pods a/-");
    check("GET", "/api/v1/namespaces/a/pods/x", "get /v1/pods a/x");
    check("GET", "/api/v1/namespaces/a/pods/x/log", "get /v1/pods/log a/x");
}

#[test]
fn other_groups_have_a_name_in_the_path() {
    check("GET", "/apis/apps/v1/replicasets", "list apps/v1/replicasets -/-");
    check(
        "PUT",
        "/apis/apps/v1/namespaces/a/replicasets/x/status",
        "update apps/v1/replicasets/status a/x",
    );
}

#[test]
fn a_namespace_is_a_resource_itself() {
    check("GET", "/api/v1/namespaces", "list /v1/namespaces -/-");
    check("GET", "/api/v1/namespaces/a", "get /v1/namespaces -/a");
    check(
        "PUT",
        "/api/v1/namespaces/a/finalize",
        "update /v1/namespaces/finalize -/a",
    );
    check(
        "PATCH",
        "/api/v1/namespaces/a/status",
        "patch /v1/namespaces/status -/a",
    );
}

#[test]
fn method_and_name_make_the_verb() {
    check("POST", "/api/v1/namespaces/a/pods", "create /v1/pods a/-");
    check("PUT", "/api/v1/namespaces/a/pods/x", "update /v1/pods a/x");
    check("PATCH", "/api/v1/namespaces/a/pods/x", "patch /v1/pods a/x");
    check("DELETE", "/api/v1/namespaces/a/pods/x", "delete /v1/pods a/x");
    check(
        "DELETE",
        "/api/v1/namespaces/a/pods",
        "deletecollection /v1/pods a/-",
    );
    check("HEAD", "/api/v1/namespaces/a/pods/x", "get /v1/pods a/x");
    check("OPTIONS", "/api/v1/pods", " /v1/pods -/-");
    check("BOGUS", "/api/v1/pods", " /v1/pods -/-");
}

#[test]
fn watch_is_a_parameter_of_a_collection() {
    check("GET", "/api/v1/pods?watch=true", "watch /v1/pods -/-");
    check("GET", "/api/v1/pods?watch=1", "watch /v1/pods -/-");
    check("GET", "/api/v1/pods?watch", "watch /v1/pods -/-");
    check("GET", "/api/v1/pods?watch=false", "list /v1/pods -/-");
    check("GET", "/api/v1/pods?watch=0", "list /v1/pods -/-");
    check(
        "GET",
        "/api/v1/namespaces/a/pods/x?watch=true",
        "get /v1/pods a/x",
    );
}

#[test]
fn watch_may_be_in_the_path_as_of_old() {
    check("GET", "/api/v1/watch/pods", "watch /v1/pods -/-");
    check("GET", "/api/v1/watch/namespaces/a/pods", "watch /v1/pods a/-");
    check(
        "GET",
        "/apis/apps/v1/watch/namespaces/a/replicasets/x",
        "watch apps/v1/replicasets a/x",
    );
    check("GET", "/api/v1/watch/namespaces/a", "watch /v1/namespaces -/a");
}

#[test]
fn trailing_slashes_are_ignored() {
    check("GET", "/api/v1/pods/", "list /v1/pods -/-");
    check("GET", "/api/v1/namespaces/a/pods/", "list /v1/pods a/-");
}

#[test]
fn escapes_are_decoded_before_the_path_is_split() {
    check(
        "GET",
        "/api/v1/namespaces/a/configmaps/x%2Fy",
        "get /v1/configmaps/y a/x",
    );
    check(
        "GET",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab",
        "get rbac.authorization.k8s.io/v1/clusterroles -/a:b",
    );
}

#[test]
fn a_path_after_the_subresource_is_a_subpath() {
    check(
        "GET",
        "/apis/apps/v1/namespaces/a/replicasets/x/scale/y",
        "get apps/v1/replicasets/scale/.. a/x",
    );
}

#[test]
fn everything_else_is_a_non_resource_path() {
    for path in [
        "/",
        "/api",
        "/api/v1",
        "/api/v1/",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/healthz",
        "/API/v1/pods",
    ] {
        check("GET", path, &format!("get {path}"));
    }
    check("GET", "//api/v1/pods", "get //api/v1/pods");
    check("POST", "/version", "post /version");
    check("GET", "/apis//v1/", "get /apis//v1/");
}

#[test]
fn authorization_sees_the_name_of_a_field_selector() {
    check_access("/api/v1/namespaces/a/pods?fieldSelector=metadata.name=x", "a/x");
    check_access(
        "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3D%3Dx,spec.nodeName=n",
        "a/x",
    );
    check_access("/api/v1/namespaces/a/pods?fieldSelector=spec.nodeName=n", "a/");
    check_access("/api/v1/pods", "/");
}

#[test]
fn a_field_selector_gives_no_right_to_delete_a_collection() {
    let query = Query::parse(Some("fieldSelector=metadata.name=x"));
    let info = parse(&Method::DELETE, "/api/v1/namespaces/a/pods", &query);
    let AccessTarget::Resource { name, .. } = info.attributes().target else {
        panic!("pods are a resource")
    };
    assert_eq!((name, info.verb()), ("", "deletecollection"));
}

#[test]
fn authorization_sees_a_namespace_in_itself() {
    check_access("/api/v1/namespaces/a", "a/a");
    check_access("/api/v1/namespaces/a/status", "a/a");
    check_access("/api/v1/namespaces", "/");
    check_access("/api/v1/nodes/n1", "/n1");
}

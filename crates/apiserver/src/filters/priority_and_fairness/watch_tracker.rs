//! Counts of open watches, by which the work of a mutating request is estimated.
//!
//! The rules are those of Kubernetes' `apiserver/pkg/util/flowcontrol/watch_tracker.go`: selectors do not matter, except
//! that a watch of one node's pods is found by an index and costs other nodes' pods nothing.

use std::collections::HashMap;
use std::sync::Arc;

use compact_str::CompactString;
use parking_lot::RwLock;
use setpoint_api::GroupResource;

use crate::request::ResourceRequest;

/// The open watches of the server.
#[derive(Debug, Default)]
pub(crate) struct WatchTracker {
    watches: RwLock<HashMap<GroupResource, HashMap<WatchScope, usize>>>,
}

/// The objects that a watch is for: all, those of a namespace, or those of one name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct WatchScope {
    namespace: CompactString,
    name: CompactString,
}

/// An open watch, counted until dropped.
#[derive(Debug)]
pub(crate) struct RegisteredWatch {
    tracker: Arc<WatchTracker>,
    resource: GroupResource,
    scope: WatchScope,
}

/// Resources with an index of watches, and its field.
const INDEXES: [(&str, &str); 1] = [("pods", "spec.nodeName")];

// === impl WatchTracker ===

impl WatchTracker {
    /// Counts a watch; `None` for one that an index finds.
    pub(crate) fn register(self: &Arc<Self>, request: &ResourceRequest) -> Option<RegisteredWatch> {
        let resource = request.target.resource.group_resource();
        let field = INDEXES.iter().find(|(indexed, _)| resource.resource == *indexed);
        let value = field.and_then(|(_, field)| request.fields.exact_match(field));
        if value.is_some_and(|value| !value.is_empty()) {
            return None;
        }
        let scope = WatchScope::new(&request.namespace, &request.name);
        let mut watches = self.watches.write();
        *watches
            .entry(resource.clone())
            .or_default()
            .entry(scope.clone())
            .or_default() += 1;
        Some(RegisteredWatch {
            tracker: self.clone(),
            resource,
            scope,
        })
    }

    /// The number of watches that are notified of a change: of all objects, of those of the namespace, of the object.
    pub(crate) fn interested(&self, request: &ResourceRequest) -> usize {
        let watches = self.watches.read();
        let Some(scopes) = watches.get(&request.target.resource.group_resource()) else {
            return 0;
        };
        let count = |namespace, name| {
            scopes
                .get(&WatchScope::new(namespace, name))
                .copied()
                .unwrap_or(0)
        };
        let (namespace, name) = (request.namespace.as_str(), request.name.as_str());
        let mut total = count("", "");
        if !namespace.is_empty() {
            total += count(namespace, "");
        }
        if !name.is_empty() {
            total += count(namespace, name);
        }
        total
    }
}

impl WatchScope {
    fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl Drop for RegisteredWatch {
    fn drop(&mut self) {
        let mut watches = self.tracker.watches.write();
        let Some(scopes) = watches.get_mut(&self.resource) else {
            return;
        };
        if let Some(count) = scopes.get_mut(&self.scope) {
            *count -= 1;
            if *count == 0 {
                scopes.remove(&self.scope);
            }
        }
        if scopes.is_empty() {
            watches.remove(&self.resource);
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::request::query::Query;
    use crate::request::{RequestInfo, parse};

    fn request(method: &Method, path: &str, query: &str) -> ResourceRequest {
        match parse(method, path, &Query::parse(Some(query))) {
            RequestInfo::Resource(request) => request,
            RequestInfo::NonResource { .. } => panic!("{path} is no resource"),
        }
    }

    #[track_caller]
    fn check(tracker: &WatchTracker, path: &str, expected: usize) {
        assert_eq!(
            tracker.interested(&request(&Method::PUT, path, "")),
            expected,
            "{path}"
        );
    }

    #[test]
    fn watches_of_all_of_the_namespace_and_of_the_object_count() {
        let tracker = Arc::new(WatchTracker::default());
        let watch = |path, query| tracker.register(&request(&Method::GET, path, query));
        let all = watch("/api/v1/configmaps", "watch=1");
        let _namespace = watch("/api/v1/namespaces/a/configmaps", "watch=1");
        let _object = watch(
            "/api/v1/namespaces/a/configmaps",
            "watch=1&fieldSelector=metadata.name%3Dx",
        );
        check(&tracker, "/api/v1/namespaces/a/configmaps/x", 3);
        check(&tracker, "/api/v1/namespaces/a/configmaps/y", 2);
        check(&tracker, "/api/v1/namespaces/b/configmaps/x", 1);
        check(&tracker, "/api/v1/namespaces/a/secrets/x", 0);
        drop(all);
        check(&tracker, "/api/v1/namespaces/a/configmaps/x", 2);
    }

    #[test]
    fn watches_of_one_nodes_pods_do_not_count() {
        let tracker = Arc::new(WatchTracker::default());
        let watch = |query| tracker.register(&request(&Method::GET, "/api/v1/pods", query));
        assert!(watch("watch=1&fieldSelector=spec.nodeName%3Dn1").is_none());
        let _unscheduled = watch("watch=1&fieldSelector=spec.nodeName%3D");
        check(&tracker, "/api/v1/namespaces/a/pods/x", 1);
    }
}

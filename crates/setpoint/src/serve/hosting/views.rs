//! [`HostedViews`]: which cluster a path belongs to.

use std::sync::Arc;

use setpoint_api::Status;
use setpoint_apiserver::{View, Views};

use super::route::FORK;
use super::{Clusters, OWN_CLUSTER, PATH};

/// The server's own cluster, and below `/clusters/NAME/` the hosted ones. Further views of a cluster, such as one of its
/// past, are further paths below `/clusters/NAME/`.
pub(in crate::serve) struct HostedViews {
    own: Arc<View>,
    clusters: Arc<Clusters>,
}

/// The cluster that a path belongs to.
#[derive(Debug, PartialEq, Eq)]
enum PathOwner<'a> {
    /// The server's own cluster, at any other path. The API of the host is one of its non-resource paths.
    Own,
    /// The view of a cluster, with the length of its prefix.
    Cluster { name: &'a str, prefix: usize },
}

impl HostedViews {
    pub(super) fn new(own: Arc<View>, clusters: Arc<Clusters>) -> Self {
        Self { own, clusters }
    }
}

impl Views for HostedViews {
    fn find(&self, path: &str) -> Result<(Arc<View>, usize), Box<Status>> {
        match parse(path) {
            PathOwner::Own => Ok((self.own.clone(), 0)),
            PathOwner::Cluster {
                name: OWN_CLUSTER,
                prefix,
            } => Ok((self.own.clone(), prefix)),
            PathOwner::Cluster { name, prefix } => Ok((self.clusters.find(name)?.view.clone(), prefix)),
        }
    }
}

fn parse(path: &str) -> PathOwner<'_> {
    let below = path.strip_prefix(PATH).and_then(|rest| rest.strip_prefix('/'));
    match below.and_then(|below| below.split_once('/')) {
        Some((name, rest)) if rest != FORK => PathOwner::Cluster {
            name,
            prefix: PATH.len() + 1 + name.len(),
        },
        _ => PathOwner::Own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Option<(&str, &str)>) {
        let addressed = match parse(path) {
            PathOwner::Own => None,
            PathOwner::Cluster { name, prefix } => Some((name, &path[prefix..])),
        };
        assert_eq!(addressed, expected, "{path}");
    }

    #[test]
    fn a_path_below_a_clusters_name_belongs_to_the_cluster() {
        check("/api/v1/pods", None);
        check("/clusters", None);
        check("/clusters/", None);
        check("/clusters/a", None);
        check("/clusters/a/fork", None);
        check("/clusters/a/", Some(("a", "/")));
        check("/clusters/a/api/v1/pods", Some(("a", "/api/v1/pods")));
        check("/clusters/a/fork/b", Some(("a", "/fork/b")));
        check("/clusters//api", Some(("", "/api")));
        check("/clustersa/api", None);
    }
}

//! The API of the host: `/clusters`, one of the non-resource paths of the server's own cluster. The users that its
//! authorizers allow the method on the path may use it, which by default are its administrators (`system:masters`).
//!
//! | request | response |
//! |---|---|
//! | `GET /clusters` | all clusters, without their kubeconfigs |
//! | `POST /clusters` | creates an empty cluster |
//! | `GET /clusters/NAME` | the cluster, with the administrator's kubeconfig |
//! | `POST /clusters/NAME/fork` | creates a cluster with the objects of this one |
//! | `DELETE /clusters/NAME` | stops and removes the cluster |

use std::sync::Arc;

use serde::Serialize;
use setpoint_api::{HttpVerb, Status};
use setpoint_apiserver::{CustomRoute, RouteFuture, RouteRequest, RouteResponse};

use super::hosted_cluster::HostedCluster;
use super::options::ClusterOptions;
use super::{Clusters, PATH, resource};

/// The last segment of the path that forks a cluster.
pub(super) const FORK: &str = "fork";

/// A cluster in a response.
#[derive(Serialize)]
struct ClusterInfo<'a> {
    name: &'a str,
    server: &'a str,
    /// The revision of its newest write.
    #[serde(rename = "resourceVersion")]
    resource_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kubeconfig: Option<String>,
}

#[derive(Serialize)]
struct ClusterList<'a> {
    items: Vec<ClusterInfo<'a>>,
}

/// A parsed request.
enum Operation {
    List,
    Create(ClusterOptions),
    Get(String),
    Fork(String, ClusterOptions),
    Delete(String),
}

/// The route of the API.
pub(in crate::serve) fn route(clusters: &Arc<Clusters>) -> CustomRoute {
    let clusters = clusters.clone();
    CustomRoute {
        path: PATH,
        subpaths: true,
        verbs: &[HttpVerb::Get, HttpVerb::Post, HttpVerb::Delete],
        handler: Box::new(move |request| -> RouteFuture {
            let (clusters, operation) = (clusters.clone(), parse(request));
            Box::pin(async move { execute(&clusters, operation?).await })
        }),
    }
}

fn parse(request: RouteRequest<'_>) -> Result<Operation, Status> {
    let below = request.path.strip_prefix(PATH).unwrap_or_default();
    let segments: Vec<&str> = below.split('/').filter(|segment| !segment.is_empty()).collect();
    match (request.verb, segments.as_slice()) {
        (HttpVerb::Get, []) => Ok(Operation::List),
        (HttpVerb::Post, []) => Ok(Operation::Create(ClusterOptions::parse(request.body)?)),
        (HttpVerb::Get, [name]) => Ok(Operation::Get((*name).to_owned())),
        (HttpVerb::Delete, [name]) => Ok(Operation::Delete((*name).to_owned())),
        (HttpVerb::Post, [name, FORK]) => {
            let options = ClusterOptions::parse(request.body)?;
            Ok(Operation::Fork((*name).to_owned(), options))
        }
        _ => Err(Status::method_not_allowed()),
    }
}

async fn execute(clusters: &Arc<Clusters>, operation: Operation) -> Result<RouteResponse, Status> {
    match operation {
        Operation::List => {
            let clusters = clusters.list();
            let items = clusters.iter().map(|cluster| ClusterInfo::new(cluster)).collect();
            Ok(RouteResponse::json(json(&ClusterList { items })?))
        }
        Operation::Get(name) => {
            let cluster = clusters.find(&name)?;
            Ok(RouteResponse::json(json(&ClusterInfo::with_kubeconfig(
                &cluster,
            )?)?))
        }
        Operation::Create(options) => {
            let cluster = clusters.create(options).await?;
            created(&cluster)
        }
        Operation::Fork(name, options) => {
            let cluster = clusters.fork(&name, options)?;
            created(&cluster)
        }
        Operation::Delete(name) => {
            clusters.delete(&name).await?;
            Ok(RouteResponse::json(
                Status::success(&resource(), &name, "").to_json(),
            ))
        }
    }
}

fn created(cluster: &HostedCluster) -> Result<RouteResponse, Status> {
    Ok(RouteResponse::created(json(&ClusterInfo::with_kubeconfig(
        cluster,
    )?)?))
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Status> {
    serde_json::to_vec(value).map_err(Status::internal)
}

impl<'a> ClusterInfo<'a> {
    fn new(cluster: &'a HostedCluster) -> Self {
        Self {
            name: &cluster.name,
            server: &cluster.server,
            resource_version: cluster.caches.store().revision().get().to_string(),
            kubeconfig: None,
        }
    }

    fn with_kubeconfig(cluster: &'a HostedCluster) -> Result<Self, Status> {
        Ok(Self {
            kubeconfig: Some(cluster.kubeconfig.to_yaml().map_err(Status::internal)?),
            ..Self::new(cluster)
        })
    }
}

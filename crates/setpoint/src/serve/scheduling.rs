//! The scheduler's configuration file, and the API that explains its decisions.
//!
//! | request | response |
//! |---|---|
//! | `GET /scheduling/explain/NAMESPACE/POD` | for every node, the plugin that rejects the pod or its scores |
//! | `POST /scheduling/explain/NAMESPACE` with a Pod | the same for a pod that does not exist |
//!
//! The users that the cluster's authorizers allow the method on the path may use it.

use std::sync::Arc;

use anyhow::{Context, Result};
use setpoint_api::{Clock, GroupResource, Gvr, HttpVerb, Key, Serve, Status, Stored, User};
use setpoint_apiserver::{CustomRoute, RouteFuture, RouteRequest, RouteResponse};
use setpoint_codec::{json, yaml};
use setpoint_runtime::{Caches, Client};
use setpoint_scheduler::Config;
use setpoint_scheduler::explain::{ExplainError, Explainer};

use crate::args::SchedulerFlags;
use crate::scheduler::read_config;

/// The path of the API.
const PATH: &str = "/scheduling/explain";

/// The configuration of the file, or the default.
pub(super) fn config(flags: &SchedulerFlags, clock: &Arc<dyn Clock>) -> Result<Config> {
    match &flags.scheduler_config {
        None => Ok(Config::default()),
        Some(path) => read_config(path, clock)
            .with_context(|| format!("cannot load the configuration {}", path.display())),
    }
}

/// What the API works on.
struct ExplainHandler {
    caches: Arc<dyn Caches>,
    serve: Arc<dyn Serve>,
    explainer: Arc<Explainer>,
}

/// The route of the API.
pub(super) fn route(
    caches: Arc<dyn Caches>,
    serve: Arc<dyn Serve>,
    explainer: Arc<Explainer>,
) -> CustomRoute {
    let handler = Arc::new(ExplainHandler {
        caches,
        serve,
        explainer,
    });
    CustomRoute {
        path: PATH,
        subpaths: true,
        verbs: &[HttpVerb::Get, HttpVerb::Post],
        handler: Box::new(move |request| -> RouteFuture {
            let (handler, query) = (handler.clone(), parse(request));
            Box::pin(async move { handler.explain(query?).await })
        }),
    }
}

/// A parsed request.
enum Query {
    /// A pod that exists.
    Existing(Key),
    /// A pod that may be created by this user.
    WhatIf {
        namespace: String,
        pod: Vec<u8>,
        user: User,
    },
}

fn parse(request: RouteRequest<'_>) -> Result<Query, Status> {
    let below = request.path.strip_prefix(PATH).unwrap_or_default();
    let segments: Vec<&str> = below.split('/').filter(|segment| !segment.is_empty()).collect();
    match (request.verb, segments.as_slice()) {
        (HttpVerb::Get, [namespace, name]) => Ok(Query::Existing(Key::new(namespace, name))),
        (HttpVerb::Post, [namespace]) => {
            let tree = yaml::parse(request.body).map_err(|error| Status::bad_request(error.to_string()))?;
            Ok(Query::WhatIf {
                namespace: (*namespace).to_owned(),
                pod: without_name(&json::write(&tree))?,
                user: request.user.clone(),
            })
        }
        _ => Err(Status::method_not_allowed()),
    }
}

/// The manifest with a generated name, so that a pod of this name may exist.
fn without_name(pod: &[u8]) -> Result<Vec<u8>, Status> {
    let invalid = |error: serde_json::Error| Status::bad_request(error.to_string());
    let mut pod: serde_json::Value = serde_json::from_slice(pod).map_err(invalid)?;
    if let Some(metadata) = pod["metadata"].as_object_mut()
        && let Some(name) = metadata.remove("name")
    {
        let prefix = format!("{}-", name.as_str().unwrap_or_default());
        metadata.insert("generateName".to_owned(), prefix.into());
    }
    serde_json::to_vec(&pod).map_err(invalid)
}

impl ExplainHandler {
    async fn explain(&self, query: Query) -> Result<RouteResponse, Status> {
        let pod = match query {
            Query::Existing(key) => self.find(&key)?,
            Query::WhatIf { namespace, pod, user } => {
                let client = Client::new(self.serve.clone(), Arc::new(user)).dry_run();
                client
                    .dynamic(Gvr::new("", "v1", "pods"), &namespace)
                    .create(pod)
                    .await?
            }
        };
        let explanation = self.explainer.explain(&pod).map_err(|error| to_status(&error))?;
        let json = serde_json::to_vec(&explanation).map_err(Status::internal)?;
        Ok(RouteResponse::json(json))
    }

    fn find(&self, key: &Key) -> Result<Arc<Stored>, Status> {
        let pods = GroupResource::new("", "pods");
        let cache = self.caches.cache(&pods);
        let found = cache.and_then(|cache| cache.find(key));
        found.ok_or_else(|| Status::not_found(&pods, key.name()))
    }
}

fn to_status(error: &ExplainError) -> Status {
    match error {
        ExplainError::NotRunning => Status::unavailable("the scheduler does not run in this server"),
        ExplainError::InvalidPod => Status::bad_request("the pod cannot be decoded"),
        ExplainError::NoProfile(name) => {
            Status::bad_request(format!("no profile of this scheduler has the name {name:?}"))
        }
    }
}

//! `pods/exec`, `pods/attach` and `pods/portforward`: streams between a client and a container.

use std::sync::Arc;

use http::Response;
use http::header::UPGRADE;
use hyper::body::Incoming;
use serde_json::Value;
use setpoint_api::{ApiVerb, User};
use setpoint_auth::authorize;

use super::locate::{self, ObjectReader};
use super::options::ConnectOptions;
use super::relay::{self, BackendRequest};
use crate::body::Body;
use crate::chain::Exchange;
use crate::request::ResourceRequest;
use crate::request::options::StatusError;

/// Runs a command in a container.
pub(super) async fn exec(
    exchange: &Exchange<'_>,
    resource: &ResourceRequest,
    user: &Arc<User>,
    (options, body): (&ConnectOptions, &mut Option<Incoming>),
) -> Result<Response<Body>, StatusError> {
    let mut query = options.streams();
    let command = options.command.iter();
    query.extend(command.map(|argument| ("command", argument.as_str())));
    let pod = PodRequest::new(exchange, resource, user).await?;
    let path = pod.container_path("exec", &options.container)?;
    pod.forward(&path, &query, body).await
}

/// Attaches to the first process of a container.
pub(super) async fn attach(
    exchange: &Exchange<'_>,
    resource: &ResourceRequest,
    user: &Arc<User>,
    (options, body): (&ConnectOptions, &mut Option<Incoming>),
) -> Result<Response<Body>, StatusError> {
    let pod = PodRequest::new(exchange, resource, user).await?;
    let path = pod.container_path("attach", &options.container)?;
    pod.forward(&path, &options.streams(), body).await
}

/// Forwards connections to ports of a pod.
pub(super) async fn port_forward(
    exchange: &Exchange<'_>,
    resource: &ResourceRequest,
    user: &Arc<User>,
    (options, body): (&ConnectOptions, &mut Option<Incoming>),
) -> Result<Response<Body>, StatusError> {
    let ports = options.ports.join(",");
    let options = (!ports.is_empty()).then_some(("port", ports.as_str()));
    let pod = PodRequest::new(exchange, resource, user).await?;
    let path = format!("/portForward/{}/{}", resource.namespace, pod.name);
    pod.forward(&path, options.as_slice(), body).await
}

/// A stream to a pod, which the caller may open.
struct PodRequest<'a> {
    exchange: &'a Exchange<'a>,
    reader: ObjectReader<'a>,
    namespace: &'a str,
    name: &'a str,
    pod: Value,
}

impl<'a> PodRequest<'a> {
    async fn new(
        exchange: &'a Exchange<'a>,
        resource: &'a ResourceRequest,
        user: &'a Arc<User>,
    ) -> Result<Self, StatusError> {
        check_access(exchange, user).await?;
        let (namespace, name) = (
            resource.namespace.as_str(),
            resource.target.name.as_deref().unwrap_or_default(),
        );
        let reader = ObjectReader {
            serve: &*exchange.shared.serve,
            user,
            connect: &*exchange.shared.connect,
        };
        let pod = reader.pod(namespace, name).await?;
        Ok(Self {
            exchange,
            reader,
            namespace,
            name,
            pod,
        })
    }

    /// The kubelet's path of a stream to the requested container.
    fn container_path(&self, stream: &str, requested: &str) -> Result<String, StatusError> {
        let container = locate::container_name(&self.pod, requested)?;
        Ok(format!("/{stream}/{}/{}/{container}", self.namespace, self.name))
    }

    /// Forwards the request to the kubelet of the pod's node.
    async fn forward(
        &self,
        path: &str,
        options: &[(&str, &str)],
        body: &mut Option<Incoming>,
    ) -> Result<Response<Body>, StatusError> {
        if !self.exchange.head.headers.contains_key(UPGRADE) {
            return Err(locate::bad_request("Upgrade request required"));
        }
        let node = self.pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if node.is_empty() {
            let message = format!("pod {} does not have a host assigned", self.name);
            return Err(locate::bad_request(&message));
        }
        let backend = self.reader.node(node).await?;
        let request =
            BackendRequest::of(self.exchange.head, path, &relay::encode(options)).with_body(body.take());
        let response = relay::forward(self.exchange, backend, request).await;
        response.map_err(|error| locate::internal(&format!("error dialing backend: {error}")))
    }
}

/// Authorizes the stream as a create: a client that opens it by a WebSocket sends a GET, whose verb would be get.
async fn check_access(exchange: &Exchange<'_>, user: &User) -> Result<(), StatusError> {
    let attributes = authorize::Attributes {
        verb: ApiVerb::Create.as_str(),
        ..exchange.request_info.attributes()
    };
    authorize::check(&*exchange.shared.authorize, user, &attributes).await
}

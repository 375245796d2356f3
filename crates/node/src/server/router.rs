//! Paths of the API.

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use super::authorization::Access;
use super::body::{self, Body, text};
use super::command::{self, Action, ContainerPath};
use super::connection::{Reply, Server};
use super::query::Query;
use super::{container_logs, metrics, pods, port_forward, stats};

/// Handles a request: authenticates and authorizes its client, and calls the handler of its path.
pub(super) async fn handle(server: &Server, access: &Access, request: Request<Incoming>) -> Reply {
    let path = request.uri().path().to_owned();
    if let Err(response) = access
        .check(&server.node, request.method(), &path, request.headers())
        .await
    {
        return response.into();
    }
    let reply = dispatch(server, request, &path).await;
    reply.unwrap_or_else(Reply::from)
}

async fn dispatch(
    server: &Server,
    mut request: Request<Incoming>,
    path: &str,
) -> Result<Reply, Response<Body>> {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let segments: Vec<&str> = path
        .split('/')
        .skip(1)
        .filter(|segment| !segment.is_empty())
        .collect();
    match segments.as_slice() {
        ["containerLogs", namespace, pod, container] => {
            check_get(&request)?;
            let logs = container_logs::handle(server, (namespace, pod), container, &query);
            Ok(logs.await?.into())
        }
        ["run", rest @ ..] if let Some(path) = container_path(rest) => {
            match *request.method() == Method::POST {
                true => Ok(command::run(server, path, &query).await?.into()),
                false => Err(body::method_not_allowed("POST")),
            }
        }
        [name @ ("exec" | "attach"), rest @ ..] if let Some(path) = container_path(rest) => {
            check_get_or_post(&request)?;
            let action = match *name {
                "exec" => Action::Exec,
                _ => Action::Attach,
            };
            let upgrade = hyper::upgrade::on(&mut request);
            command::stream(server, action, path, &query, (request.headers(), upgrade)).await
        }
        ["portForward", namespace, pod, uid @ ..] if uid.len() < 2 => {
            check_get_or_post(&request)?;
            let upgrade = hyper::upgrade::on(&mut request);
            let target = (*namespace, *pod, uid.first().copied());
            port_forward::handle(server, target, &query, (request.headers(), upgrade)).await
        }
        others => {
            check_get(&request)?;
            Ok(read_only(server, others).await?.into())
        }
    }
}

/// Paths that only return something.
async fn read_only(server: &Server, segments: &[&str]) -> Result<Response<Body>, Response<Body>> {
    match segments {
        ["healthz", ..] => Ok(text(StatusCode::OK, "ok")),
        ["pods"] => Ok(pods::bound(server)),
        ["runningpods"] => pods::running(server).await,
        ["configz"] => {
            let configuration = serde_json::json!({"kubeletconfig": server.agent.configuration()});
            Ok(body::json(configuration.to_string()))
        }
        ["stats", "summary"] => stats::summary(server).await,
        ["metrics"] => metrics::all(server).await,
        ["metrics", "resource"] => metrics::resource(server).await,
        ["metrics", "probes"] => Ok(metrics::page(server.agent.probe_metrics())),
        ["logs", ..] => Err(text(
            StatusCode::METHOD_NOT_ALLOWED,
            "logs endpoint is disabled.\n",
        )),
        _ => Err(text(StatusCode::NOT_FOUND, "404 page not found\n")),
    }
}

/// `{namespace}/{pod}/{container}`, or `{namespace}/{pod}/{uid}/{container}`.
fn container_path<'a>(segments: &[&'a str]) -> Option<ContainerPath<'a>> {
    let (namespace, pod, uid, container) = match *segments {
        [namespace, pod, container] => (namespace, pod, None, container),
        [namespace, pod, uid, container] => (namespace, pod, Some(uid), container),
        _ => return None,
    };
    Some(ContainerPath {
        namespace,
        pod,
        uid,
        container,
    })
}

fn check_get(request: &Request<Incoming>) -> Result<(), Response<Body>> {
    match *request.method() == Method::GET {
        true => Ok(()),
        false => Err(body::method_not_allowed("GET")),
    }
}

fn check_get_or_post(request: &Request<Incoming>) -> Result<(), Response<Body>> {
    match *request.method() {
        Method::GET | Method::POST => Ok(()),
        _ => Err(body::method_not_allowed("GET, POST")),
    }
}

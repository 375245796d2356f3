//! `/containerLogs/{namespace}/{pod}/{container}`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use jiff::Timestamp;
use setpoint_container_runtime::{ContainerId, ContainerRecord, ContainerState};
use tokio::sync::mpsc;

use super::agent_api::AgentApi;
use super::body::{Body, text};
use super::connection::Server;
use super::containers;
use super::pod_view::PodView;
use super::query::Query;
use crate::logs::{FollowState, LogOptions, LogSource, Stream};

/// The annotation of a simulated container that has its log.
const SIMULATED_LOG: &str = "simulated.setpoint.dev/log";
/// Pieces of a log that wait for the client.
const QUEUED_PIECES: usize = 8;

pub(super) async fn handle(
    server: &Server,
    (namespace, name): (&str, &str),
    container: &str,
    query: &Query,
) -> Result<Response<Body>, Response<Body>> {
    let options = parse(query, server.agent.clock().now())?;
    let pod = server.find_pod(namespace, name).ok_or_else(|| {
        let message = format!("pod {name:?} does not exist");
        text(StatusCode::NOT_FOUND, message)
    })?;
    if pod.find_container(container).is_none() {
        let message = format!("container {container:?} not found in pod {name:?}");
        return Err(text(StatusCode::NOT_FOUND, message));
    }
    let bad_request = |message: String| text(StatusCode::BAD_REQUEST, message);
    let source = find_source(server, &pod, container, &options);
    let (id, source) = source.await.map_err(bad_request)?;
    let reader = source.open(options).await.map_err(bad_request)?;
    let state = Arc::new(FollowedContainer {
        agent: server.agent.clone(),
        id,
    });
    let (out, bytes) = mpsc::channel(QUEUED_PIECES);
    let clock = server.agent.clock().clone();
    let source = Some(Box::pin(reader.send(out, state, clock)) as _);
    let mut response = Response::new(Body::Stream { bytes, source });
    let plain = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    Ok(response)
}

/// The container whose log is requested, and where the log is.
async fn find_source(
    server: &Server,
    pod: &PodView,
    container: &str,
    options: &LogOptions,
) -> Result<(ContainerId, LogSource), String> {
    let id = pod.log_container(container, options.previous)?;
    let found = containers::find(server.agent.runtime(), pod, &id).await;
    let record = found.map_err(|error| error.to_string())?;
    let record = record.ok_or_else(|| {
        format!(
            "unable to retrieve container logs for {}: container not found",
            id.0
        )
    })?;
    Ok((id, source(&record)))
}

fn source(record: &ContainerRecord) -> LogSource {
    if !record.log_path.is_empty() {
        return LogSource::File(record.log_path.clone().into());
    }
    let time = match &record.state {
        ContainerState::Running { started_at } => *started_at,
        ContainerState::Exited(status) => status.started_at,
        ContainerState::Created | ContainerState::Unknown => record.created_at,
    };
    let text = record.annotations.get(SIMULATED_LOG).cloned().unwrap_or_default();
    LogSource::Text { time, text }
}

/// Parses PodLogOptions.
fn parse(query: &Query, now: Timestamp) -> Result<LogOptions, Response<Body>> {
    let undecodable = || {
        text(
            StatusCode::BAD_REQUEST,
            r#"{"message": "Unable to decode query."}"#,
        )
    };
    let invalid = || {
        text(
            StatusCode::UNPROCESSABLE_ENTITY,
            r#"{"message": "Invalid request."}"#,
        )
    };
    let number = |name: &str, least: i64| -> Result<Option<u64>, Response<Body>> {
        match query.value(name) {
            "" => Ok(None),
            value => {
                let number: i64 = value.parse().map_err(|_| undecodable())?;
                match number < least {
                    true => Err(invalid()),
                    false => Ok(u64::try_from(number).ok()),
                }
            }
        }
    };
    let tail_lines = match query.value("tail") {
        "" => number("tailLines", 0)?,
        "all" => None,
        _ => number("tail", 0)?,
    };
    let since = match (number("sinceSeconds", 1)?, query.value("sinceTime")) {
        (None, "") => None,
        (Some(seconds), "") => now.checked_sub(Duration::from_secs(seconds)).ok(),
        (None, time) => Some(time.parse().map_err(|_| undecodable())?),
        (Some(_), _) => return Err(invalid()),
    };
    let stream = match query.value("stream") {
        "" | "All" => None,
        "Stdout" => Some(Stream::Stdout),
        "Stderr" => Some(Stream::Stderr),
        _ => return Err(invalid()),
    };
    if stream.is_some() && tail_lines.is_some() {
        return Err(invalid());
    }
    Ok(LogOptions {
        follow: query.flag("follow"),
        previous: query.flag("previous"),
        timestamps: query.flag("timestamps"),
        since,
        tail_lines,
        limit_bytes: number("limitBytes", 1)?,
        stream,
    })
}

/// A container whose log is followed.
struct FollowedContainer {
    agent: Arc<dyn AgentApi>,
    id: ContainerId,
}

impl FollowState for FollowedContainer {
    /// An unavailable runtime may still run it.
    fn is_running(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(async {
            match self.agent.runtime().container(&self.id).await {
                Ok(record) => record.is_some_and(|record| containers::is_running(&record)),
                Err(_) => true,
            }
        })
    }
}

//! One check of a container: by a command, HTTP, TCP or gRPC.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerPort, HTTPGetAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use setpoint_api::Clock;
use setpoint_container_runtime::{ContainerId, ErrorKind, ExecOutput, Runtime};
use tokio::net::TcpStream;

use super::get_request::{HttpRequest, HttpResponse, get};
use super::spec::ProbeAction;
use super::{grpc, tls};

/// At most this much of the output of a command is reported: that of the kubelet.
const MAX_OUTPUT_BYTES: usize = 10 << 10;

/// Where a container is reached.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) container: ContainerId,
    /// The address of the pod; that of the node with the host's network.
    pub(crate) address: Option<IpAddr>,
    /// The ports of the container, for actions that name one.
    pub(crate) ports: Vec<ContainerPort>,
}

/// The outcome of a check that was carried out: success, and the output for the event of a failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) succeeded: bool,
    pub(super) output: String,
}

/// Carries out one check. `Err` is why it could not be.
pub(super) async fn check(
    runtime: &dyn Runtime,
    clock: &dyn Clock,
    (action, timeout): (&ProbeAction, Duration),
    endpoint: &Endpoint,
) -> Result<Outcome, String> {
    match action {
        ProbeAction::Exec(exec) => {
            let command = exec.command.clone().unwrap_or_default();
            exec_check(runtime, &endpoint.container, &command, timeout).await
        }
        ProbeAction::HttpGet(request) => match http_get(clock, request, endpoint, timeout).await {
            Ok((status, _)) if (200..400).contains(&status) => Ok(success()),
            Ok((status, _)) => Ok(failure(format!("HTTP probe failed with statuscode: {status}"))),
            Err(error) => Ok(failure(error)),
        },
        ProbeAction::TcpSocket(socket) => {
            let (host, port) = (socket.host.as_deref(), resolve_port(&socket.port, endpoint)?);
            let host = host_of(host, endpoint)?;
            match connect(clock, &host, port, timeout).await {
                Ok(_) => Ok(success()),
                Err(error) => Ok(failure(error)),
            }
        }
        ProbeAction::Grpc(action) => {
            let port = resolve_port(&IntOrString::Int(action.port), endpoint)?;
            let host = host_of(None, endpoint)?;
            let service = action.service.as_deref().unwrap_or_default();
            Ok(grpc::check(&host, port, service, timeout).await)
        }
    }
}

async fn exec_check(
    runtime: &dyn Runtime,
    id: &ContainerId,
    command: &[String],
    timeout: Duration,
) -> Result<Outcome, String> {
    match runtime.exec_sync(id, command, timeout).await {
        Ok(output) => Ok(exec_outcome(output)),
        Err(error) if error.kind == ErrorKind::DeadlineExceeded => Ok(Outcome {
            succeeded: false,
            output: format!(
                "command timed out: {:?} timed out after {}s",
                command.join(" "),
                timeout.as_secs()
            ),
        }),
        Err(error) => Err(error.to_string()),
    }
}

/// The outcome of a command that has exited, with the start of its output.
fn exec_outcome(output: ExecOutput) -> Outcome {
    let mut text = [output.stdout, output.stderr].concat();
    text.truncate(MAX_OUTPUT_BYTES);
    Outcome {
        succeeded: output.exit_code == 0,
        output: String::from_utf8_lossy(&text).into_owned(),
    }
}

/// Sends a GET request. Returns the status code and the start of the body, or the text of the failure.
pub(crate) async fn http_get(
    clock: &dyn Clock,
    action: &HTTPGetAction,
    endpoint: &Endpoint,
    timeout: Duration,
) -> Result<(u16, String), String> {
    let port = resolve_port(&action.port, endpoint)?;
    let host = host_of(action.host.as_deref(), endpoint)?;
    let headers = action.http_headers.iter().flatten();
    let authority = authority(&host, port);
    let path = action.path.as_deref().unwrap_or("/");
    let request = HttpRequest {
        host: &authority,
        path,
        headers: headers
            .map(|header| (header.name.as_str(), header.value.as_str()))
            .collect(),
    };
    let is_https = action.scheme.as_deref() == Some("HTTPS");
    let url = format!("{}://{authority}{path}", if is_https { "https" } else { "http" });
    let send = async {
        let stream = connect(clock, &host, port, timeout).await?;
        let response = match is_https {
            true => get(tls::connect(stream, &host).await?, &request).await,
            false => get(stream, &request).await,
        };
        response.map_err(|error| error.to_string())
    };
    let response: Result<HttpResponse, String> = tokio::select! {
        biased;
        response = send => response,
        () = clock.sleep(timeout) => {
            Err("context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned())
        }
    };
    match response {
        Ok(HttpResponse { status, body }) => Ok((status, body)),
        Err(error) => Err(format!("Get {url:?}: {error}")),
    }
}

async fn connect(clock: &dyn Clock, host: &str, port: u16, timeout: Duration) -> Result<TcpStream, String> {
    let target = authority(host, port);
    tokio::select! {
        biased;
        connected = TcpStream::connect((host, port)) => {
            connected.map_err(|error| format!("dial tcp {target}: connect: {}", go_error(&error)))
        }
        () = clock.sleep(timeout) => Err(format!("dial tcp {target}: i/o timeout")),
    }
}

fn go_error(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        std::io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        std::io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        _ => error.to_string(),
    }
}

pub(super) fn authority(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

fn host_of(host: Option<&str>, endpoint: &Endpoint) -> Result<String, String> {
    match (host.filter(|host| !host.is_empty()), endpoint.address) {
        (Some(host), _) => Ok(host.to_owned()),
        (None, Some(address)) => Ok(address.to_string()),
        (None, None) => Err("the pod has no IP address".to_owned()),
    }
}

/// The number of a port, which may be the name of one of the container's.
fn resolve_port(port: &IntOrString, endpoint: &Endpoint) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let named = endpoint
                .ports
                .iter()
                .find(|port| port.name.as_deref() == Some(name));
            let number = named.map(|port| port.container_port);
            let number = number.or_else(|| name.parse().ok());
            number.ok_or_else(|| format!("couldn't find port: {name}"))?
        }
    };
    let valid = u16::try_from(number).ok().filter(|port| *port > 0);
    valid.ok_or_else(|| format!("invalid port number: {number}"))
}

pub(super) fn failure(output: String) -> Outcome {
    Outcome {
        succeeded: false,
        output,
    }
}

pub(super) fn success() -> Outcome {
    Outcome {
        succeeded: true,
        output: String::new(),
    }
}

#[cfg(test)]
mod tests;

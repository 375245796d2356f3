//! A gRPC probe: the health service of a container (`grpc.health.v1.Health`).

use std::time::Duration;

use prost::Message;
use setpoint_grpc::{Channel, Code, Endpoint, Metadata, Status};

use super::check::{Outcome, authority, failure, success};

/// The method of the health service.
const METHOD: &str = "grpc.health.v1.Health/Check";
/// The status of a service that is healthy.
const SERVING: i32 = 1;
const STATUSES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];

#[derive(Clone, PartialEq, Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// Calls the health service of a host for one of its services; an empty name is the server itself. Whatever fails is a
/// failure of the probe, with the kubelet's text.
pub(super) async fn check(host: &str, port: u16, service: &str, timeout: Duration) -> Outcome {
    let channel = Channel::new(Endpoint::tcp(host, port));
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    let called = channel
        .unary(METHOD, &request, timeout, Metadata::default())
        .await;
    match called {
        Ok(HealthCheckResponse { status: SERVING }) => success(),
        Ok(response) => failure(format!(
            "service unhealthy (responded with {:?})",
            name(response.status)
        )),
        Err(status) => failure(failure_text(&status, &authority(host, port), timeout)),
    }
}

fn name(status: i32) -> String {
    let known = usize::try_from(status).ok().and_then(|at| STATUSES.get(at));
    known.map_or_else(|| status.to_string(), ToString::to_string)
}

fn failure_text(status: &Status, address: &str, timeout: Duration) -> String {
    let seconds = timeout.as_secs();
    match status.code {
        _ if status.unsent => {
            format!(
                "timeout: failed to connect service {address:?} within {seconds}s: context deadline exceeded"
            )
        }
        Code::UNIMPLEMENTED => format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {}",
            status.message
        ),
        Code::DEADLINE_EXCEEDED => format!("timeout: health rpc did not complete within {seconds}s"),
        _ => format!("error: health rpc probe failed: {}", status.text()),
    }
}

#[cfg(test)]
mod tests;

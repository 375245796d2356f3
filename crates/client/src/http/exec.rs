//! Exec: runs a command in a container and collects its output, over a WebSocket.
//!
//! The protocol is `v4.channel.k8s.io`: the first byte of a message is its channel, and the last message of channel 3 is a
//! Status with the exit code. The command gets no input.

mod frames;

use ::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_core::future::BoxFuture;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use setpoint_api::Status;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::request::{EncodedRequest, escaped};
use super::{Http, encoding};
use frames::{Frame, FrameReader};

/// The container in which a command runs.
#[derive(Debug, Clone, Copy)]
pub struct ExecTarget<'a> {
    /// The namespace of the pod.
    pub namespace: &'a str,
    /// The pod.
    pub pod: &'a str,
    /// The container.
    pub container: &'a str,
}

/// What a command has printed, and its exit code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecOutput {
    /// The standard output.
    pub stdout: Vec<u8>,
    /// The standard error.
    pub stderr: Vec<u8>,
    /// The exit code.
    pub exit_code: i32,
}

const PROTOCOL: HeaderValue = HeaderValue::from_static("v4.channel.k8s.io");
/// The channels of the protocol.
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
/// The largest response to a rejected request that is read.
const MAX_ERROR_BYTES: usize = 64 << 10;
const READ_BYTES: usize = 32 << 10;

impl Http {
    /// Runs a command in a container. More output than `max_bytes` is an error. A command that fails is none: its exit code
    /// is part of the output.
    pub async fn exec(
        &self,
        target: ExecTarget<'_>,
        command: &[&str],
        max_bytes: usize,
    ) -> Result<ExecOutput, Status> {
        self.exec_at(path(target, command), max_bytes).await
    }

    // Boxed, so that it is compiled here and not by each crate that awaits it.
    fn exec_at(&self, path: String, max_bytes: usize) -> BoxFuture<'_, Result<ExecOutput, Status>> {
        Box::pin(async move {
            let encoded = EncodedRequest::get(&path);
            let credentials = self.credentials.current().await?;
            let connector = self.pool.connector(&credentials).map_err(Status::internal)?;
            let mut request = self.build_request(&encoded, encoding::JSON, &credentials)?;
            request.headers_mut().extend(handshake());
            let response = connector.send_upgrade(request).await?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                return Err(rejection(response).await);
            }
            let upgraded = hyper::upgrade::on(response).await;
            let upgraded = upgraded.map_err(|error| interrupted(&error))?;
            read_output(TokioIo::new(upgraded), max_bytes).await
        })
    }
}

fn path(target: ExecTarget<'_>, command: &[&str]) -> String {
    let ExecTarget {
        namespace,
        pod,
        container,
    } = target;
    let [namespace, pod, container] = [namespace, pod, container].map(escaped);
    let mut path = format!(
        "/api/v1/namespaces/{namespace}/pods/{pod}/exec?container={container}&stdout=true&stderr=true"
    );
    for word in command {
        path.push_str("&command=");
        path.push_str(&escaped(word));
    }
    path
}

/// The headers of the opening handshake. The response to the key is not verified: it protects from caches that know nothing
/// of WebSockets, and the connection is authenticated by TLS.
fn handshake() -> HeaderMap {
    let key = STANDARD.encode(frames::random::<16>());
    let mut headers = HeaderMap::new();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL);
    headers.insert(
        header::SEC_WEBSOCKET_KEY,
        HeaderValue::try_from(key).expect("base64 is valid in a header"),
    );
    headers
}

async fn rejection(response: Response<Incoming>) -> Status {
    let code = response.status();
    let body = Limited::new(response.into_body(), MAX_ERROR_BYTES)
        .collect()
        .await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let status: Option<Status> = setpoint_api::json::from_slice(&body).ok();
    status
        .filter(|status| status.code != 0)
        .unwrap_or_else(|| Status {
            status: "Failure".to_owned(),
            code: code.as_u16(),
            message: format!("the server did not upgrade the connection: {code}"),
            ..Status::default()
        })
}

/// Reads the channels to the end of the command.
async fn read_output(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    max_bytes: usize,
) -> Result<ExecOutput, Status> {
    let (mut frames, mut output) = (FrameReader::new(max_bytes), ExecOutput::default());
    let mut result = None;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        while let Some(frame) = frames.next_frame().map_err(|error| interrupted(&error))? {
            match frame {
                Frame::Message(bytes) => match bytes.split_first() {
                    Some((&STDOUT, bytes)) => output.stdout.extend_from_slice(bytes),
                    Some((&STDERR, bytes)) => output.stderr.extend_from_slice(bytes),
                    Some((&ERROR, bytes)) => result = Some(exit_code(bytes)?),
                    _ => {}
                },
                Frame::Ping(payload) => {
                    let pong = frames::pong(&payload);
                    stream
                        .write_all(&pong)
                        .await
                        .map_err(|error| interrupted(&error))?;
                }
                Frame::Close => return finish(output, result),
            }
        }
        if output.stdout.len() + output.stderr.len() > max_bytes {
            return Err(Status::bad_request(format!(
                "the output of the command has more than {max_bytes} bytes"
            )));
        }
        match stream.read(&mut buffer).await {
            Ok(0) => return finish(output, result),
            Ok(count) => frames.push(&buffer[..count]),
            Err(error) => return Err(interrupted(&error)),
        }
    }
}

fn finish(output: ExecOutput, result: Option<i32>) -> Result<ExecOutput, Status> {
    let exit_code = result.ok_or_else(|| {
        Status::unavailable("the connection to the container was closed before the command ended")
    })?;
    Ok(ExecOutput { exit_code, ..output })
}

/// The exit code in the status of a command. Another failure than one of the command is an error.
fn exit_code(bytes: &[u8]) -> Result<i32, Status> {
    let status: Status = setpoint_api::json::from_slice(bytes)
        .map_err(|error| Status::internal(format_args!("cannot decode the status of a command: {error}")))?;
    if status.status == "Success" {
        return Ok(0);
    }
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut codes = causes.filter(|cause| cause.reason == "ExitCode");
    match codes.next().and_then(|cause| cause.message.parse().ok()) {
        Some(code) => Ok(code),
        None => Err(status),
    }
}

fn interrupted(error: &dyn std::fmt::Display) -> Status {
    Status::unavailable(format!(
        "the connection to the container was interrupted: {error}"
    ))
}

#[cfg(test)]
mod tests;

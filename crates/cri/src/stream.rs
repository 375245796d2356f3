//! Streams into containers over CRI.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use setpoint_container_runtime::stream::ByteStream;
use setpoint_container_runtime::{
    ContainerId, Error, ErrorKind, ExecOutput, ExecRequest, RuntimeFuture, SandboxId, StreamService, Streams,
};

use crate::cri::{CALL_TIMEOUT, Cri};
use crate::error::from_status;
use crate::proto::container as proto;
use crate::proto::sandbox::{PodSandboxStatusRequest, PodSandboxStatusResponse};
use crate::{network_namespace, spdy};

/// How much longer than the command's own limit the runtime may take to respond.
const EXEC_MARGIN: Duration = Duration::from_secs(10);

impl StreamService for Cri {
    fn exec_sync<'a>(
        &'a self,
        id: &'a ContainerId,
        command: &'a [String],
        timeout: Duration,
    ) -> RuntimeFuture<'a, ExecOutput> {
        let request = proto::ExecSyncRequest {
            container_id: id.0.clone(),
            cmd: command.to_vec(),
            timeout: whole_seconds(timeout),
        };
        // Zero leaves the time to the command; otherwise the runtime's own limit comes first.
        let limit = match timeout.is_zero() {
            true => CALL_TIMEOUT,
            false => timeout.saturating_add(EXEC_MARGIN),
        };
        Box::pin(async move {
            let called = self.runtime_within("ExecSync", &request, limit).await;
            let response: proto::ExecSyncResponse =
                called.map_err(|status| from_status(&status, ErrorKind::Other))?;
            Ok(ExecOutput {
                exit_code: response.exit_code,
                stdout: response.stdout,
                stderr: response.stderr,
            })
        })
    }

    fn exec<'a>(
        &'a self,
        id: &'a ContainerId,
        request: ExecRequest,
        streams: Streams,
    ) -> RuntimeFuture<'a, i32> {
        let request = proto::ExecRequest {
            container_id: id.0.clone(),
            cmd: request.command,
            tty: request.tty,
            stdin: streams.stdin.is_some(),
            stdout: streams.stdout.is_some(),
            stderr: streams.stderr.is_some() && !request.tty,
        };
        Box::pin(async move {
            let response: proto::StreamResponse = self.runtime("Exec", &request, ErrorKind::Other).await?;
            spdy::run(&response.url, streams).await
        })
    }

    fn attach<'a>(&'a self, id: &'a ContainerId, tty: bool, streams: Streams) -> RuntimeFuture<'a, ()> {
        let request = proto::AttachRequest {
            container_id: id.0.clone(),
            stdin: streams.stdin.is_some(),
            tty,
            stdout: streams.stdout.is_some(),
            stderr: streams.stderr.is_some() && !tty,
        };
        Box::pin(async move {
            let response: proto::StreamResponse = self.runtime("Attach", &request, ErrorKind::Other).await?;
            spdy::run(&response.url, streams).await?;
            Ok(())
        })
    }

    fn port_forward<'a>(
        &'a self,
        id: &'a SandboxId,
        port: u16,
        stream: Box<dyn ByteStream>,
    ) -> RuntimeFuture<'a, ()> {
        Box::pin(self.forward(id, port, stream))
    }
}

impl Cri {
    /// Connects inside the sandbox's network namespace, which needs nothing from the runtime but its path.
    async fn forward(&self, id: &SandboxId, port: u16, mut stream: Box<dyn ByteStream>) -> Result<(), Error> {
        let namespace = self.network_namespace(id).await?;
        let broken = |error: std::io::Error| {
            let message = format!(
                "failed to connect to localhost:{port} inside namespace {:?}: {error}",
                id.0
            );
            Error::new(ErrorKind::Other, message)
        };
        let connection = network_namespace::connect(namespace.as_deref(), port)
            .await
            .map_err(broken)?;
        connection.set_nonblocking(true).map_err(broken)?;
        let mut connection = tokio::net::TcpStream::from_std(connection).map_err(broken)?;
        match tokio::io::copy_bidirectional(&mut stream, &mut connection).await {
            // One side left without a farewell: this is how many programs end a connection.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The path of the sandbox's network namespace; `None` with the host's network.
    async fn network_namespace(&self, id: &SandboxId) -> Result<Option<PathBuf>, Error> {
        let request = PodSandboxStatusRequest {
            pod_sandbox_id: id.0.clone(),
            verbose: true,
        };
        let response: PodSandboxStatusResponse = self
            .runtime("PodSandboxStatus", &request, ErrorKind::Other)
            .await?;
        let info = response.info.get("info").map_or("{}", String::as_str);
        parse_network_namespace(info)
    }
}

/// The path of the network namespace in the verbose status of a sandbox; `None` with the host's network. A status
/// without it is an error: the client of a pod must not reach the ports of the host.
fn parse_network_namespace(info: &str) -> Result<Option<PathBuf>, Error> {
    let info: SandboxInfo =
        serde_json::from_str(info).map_err(|error| Error::new(ErrorKind::Other, error.to_string()))?;
    let unknown = || {
        let message = "the runtime does not report the network namespace of the sandbox";
        Error::new(ErrorKind::Other, message)
    };
    let namespaces = info.runtime_spec.linux.namespaces;
    if namespaces.is_empty() {
        return Err(unknown());
    }
    let network = namespaces
        .into_iter()
        .find(|namespace| namespace.r#type == "network");
    match network.map(|namespace| namespace.path) {
        None => Ok(None),
        Some(path) if path.as_os_str().is_empty() => Err(unknown()),
        Some(path) => Ok(Some(path)),
    }
}

/// The verbose status of a sandbox, as far as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SandboxInfo {
    runtime_spec: RuntimeSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RuntimeSpec {
    linux: LinuxSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LinuxSpec {
    namespaces: Vec<NamespaceSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NamespaceSpec {
    r#type: String,
    path: PathBuf,
}

/// The duration in seconds, rounded up: a limit of a part of a second is not "no limit".
fn whole_seconds(duration: Duration) -> i64 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(info: &str, expected: Result<Option<&str>, &str>) {
        let found = parse_network_namespace(info).map_err(|error| error.message);
        let expected = expected
            .map(|path| path.map(PathBuf::from))
            .map_err(str::to_owned);
        assert_eq!(found, expected, "{info}");
    }

    #[test]
    fn a_sandbox_without_a_known_network_namespace_is_not_one_with_the_hosts_network() {
        let spec = |namespaces: &str| {
            format!(r#"{{"pid":7,"runtimeSpec":{{"linux":{{"namespaces":{namespaces}}}}}}}"#)
        };
        let path = r#"[{"type":"pid"},{"type":"network","path":"/run/netns/a"}]"#;
        check(&spec(path), Ok(Some("/run/netns/a")));
        check(&spec(r#"[{"type":"pid"}]"#), Ok(None));
        let unknown = "the runtime does not report the network namespace of the sandbox";
        check("{}", Err(unknown));
        check(&spec(r#"[{"type":"network"}]"#), Err(unknown));
    }
}

//! A runtime with one pod of one running container, whose commands print themselves and exit with code 7.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use setpoint_api::object::Header;
use setpoint_api::{Clock, Key, Stored};
use setpoint_container_runtime::container::Resources;
use setpoint_container_runtime::image::FileSystemUsage;
use setpoint_container_runtime::stream::ByteStream;
use setpoint_container_runtime::*;
use tokio::io::AsyncWriteExt;

use crate::server::AgentApi;

#[derive(Debug, Default)]
pub(super) struct PodRuntime;

#[derive(Debug)]
pub(super) struct TestAgent {
    pub(super) runtime: PodRuntime,
    pub(super) clock: Arc<dyn Clock>,
}

const STARTED: &str = "2026-01-01T00:00:00Z";

fn started() -> Timestamp {
    STARTED.parse().unwrap()
}

impl AgentApi for TestAgent {
    fn runtime(&self) -> &dyn Runtime {
        &self.runtime
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn find_pod(&self, node: &str, key: &Key) -> Option<Arc<Stored>> {
        match (node, key.as_str()) {
            ("n", "default/web") => Some(pod()),
            ("n", "team/forged") => Some(forged()),
            _ => None,
        }
    }

    fn pods(&self, _: &str) -> Vec<Arc<Stored>> {
        vec![pod()]
    }
}

fn pod() -> Arc<Stored> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "1"},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}, {"name": "later"}]},
        "status": {"containerStatuses": [
            {"name": "c", "containerID": "test://c1", "state": {"running": {"startedAt": STARTED}}},
            {"name": "later", "state": {"waiting": {"reason": "ContainerCreating"}}},
        ]},
    });
    let header = Header::new(Key::new("default", "web"));
    Arc::new(Stored::new(header, pod.to_string().into(), 0))
}

/// A pod whose status has the id of another pod's container.
fn forged() -> Arc<Stored> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "forged", "namespace": "team", "uid": "f", "resourceVersion": "1"},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
        "status": {"containerStatuses": [
            {"name": "c", "containerID": "test://c1", "state": {"running": {"startedAt": STARTED}}},
        ]},
    });
    let header = Header::new(Key::new("team", "forged"));
    Arc::new(Stored::new(header, pod.to_string().into(), 0))
}

fn container() -> ContainerRecord {
    let log = ("simulated.setpoint.dev/log".to_owned(), "one\ntwo\n".to_owned());
    ContainerRecord {
        id: ContainerId("c1".to_owned()),
        sandbox: SandboxId("s1".to_owned()),
        name: "c".to_owned(),
        attempt: 0,
        image: "i".to_owned(),
        image_id: "i".to_owned(),
        labels: Default::default(),
        annotations: [log].into(),
        created_at: started(),
        state: ContainerState::Running {
            started_at: started(),
        },
        log_path: String::new(),
        resources: None,
        user: None,
    }
}

fn sandbox() -> SandboxRecord {
    SandboxRecord {
        id: SandboxId("s1".to_owned()),
        pod: PodIdentity {
            node: "n".to_owned(),
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            uid: "u".to_owned(),
        },
        attempt: 0,
        state: SandboxState::Ready,
        created_at: started(),
        addresses: Vec::new(),
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> RuntimeFuture<'a, T> {
    Box::pin(async { Ok(value) })
}

fn unused<'a, T>() -> RuntimeFuture<'a, T> {
    Box::pin(async { Err(Error::new(ErrorKind::Unimplemented, "not used by the server")) })
}

impl SandboxService for PodRuntime {
    fn run_sandbox(&self, _: SandboxConfig) -> RuntimeFuture<'_, SandboxId> {
        unused()
    }
    fn stop_sandbox(&self, _: &SandboxId) -> RuntimeFuture<'_, ()> {
        unused()
    }
    fn remove_sandbox(&self, _: &SandboxId) -> RuntimeFuture<'_, ()> {
        unused()
    }
    fn sandbox(&self, id: &SandboxId) -> RuntimeFuture<'_, Option<SandboxRecord>> {
        ready((id.0 == "s1").then(sandbox))
    }
    fn list_sandboxes(&self) -> RuntimeFuture<'_, Vec<SandboxRecord>> {
        ready(vec![sandbox()])
    }
}

impl ContainerService for PodRuntime {
    fn create_container<'a>(
        &'a self,
        _: &'a SandboxId,
        _: ContainerConfig,
        _: &'a SandboxConfig,
    ) -> RuntimeFuture<'a, ContainerId> {
        unused()
    }
    fn start_container(&self, _: &ContainerId) -> RuntimeFuture<'_, ()> {
        unused()
    }
    fn stop_container(&self, _: &ContainerId, _: Duration) -> RuntimeFuture<'_, ()> {
        unused()
    }
    fn remove_container(&self, _: &ContainerId) -> RuntimeFuture<'_, ()> {
        unused()
    }
    fn container(&self, id: &ContainerId) -> RuntimeFuture<'_, Option<ContainerRecord>> {
        ready((id.0 == "c1").then(container))
    }
    fn list_containers(&self) -> RuntimeFuture<'_, Vec<ContainerRecord>> {
        ready(vec![container()])
    }
    fn update_container(&self, _: &ContainerId, _: Resources) -> RuntimeFuture<'_, ()> {
        unused()
    }
    fn reopen_log(&self, _: &ContainerId) -> RuntimeFuture<'_, ()> {
        unused()
    }
}

impl ImageService for PodRuntime {
    fn image(&self, _: &str) -> RuntimeFuture<'_, Option<Image>> {
        unused()
    }
    fn pull_image<'a>(&'a self, _: &'a str, _: Option<&'a PullCredentials>) -> RuntimeFuture<'a, String> {
        unused()
    }
    fn list_images(&self) -> RuntimeFuture<'_, Vec<Image>> {
        unused()
    }
    fn remove_image(&self, _: &str) -> RuntimeFuture<'_, ()> {
        unused()
    }
    fn image_file_system(&self) -> RuntimeFuture<'_, FileSystemUsage> {
        unused()
    }
}

impl StreamService for PodRuntime {
    fn exec_sync<'a>(
        &'a self,
        _: &'a ContainerId,
        command: &'a [String],
        _: Duration,
    ) -> RuntimeFuture<'a, ExecOutput> {
        ready(ExecOutput {
            stdout: command.join(" ").into_bytes(),
            ..ExecOutput::default()
        })
    }

    fn exec<'a>(
        &'a self,
        _: &'a ContainerId,
        request: ExecRequest,
        streams: Streams,
    ) -> RuntimeFuture<'a, i32> {
        Box::pin(async move {
            let text = request.command.join(" ");
            streams.stdout.unwrap().write_all(text.as_bytes()).await.unwrap();
            Ok(7)
        })
    }

    fn attach<'a>(&'a self, _: &'a ContainerId, _: bool, _: Streams) -> RuntimeFuture<'a, ()> {
        unused()
    }

    fn port_forward<'a>(&'a self, _: &'a SandboxId, _: u16, _: Box<dyn ByteStream>) -> RuntimeFuture<'a, ()> {
        unused()
    }
}

impl StatsService for PodRuntime {
    fn container_stats(&self) -> RuntimeFuture<'_, Vec<ContainerStats>> {
        ready(vec![ContainerStats {
            id: ContainerId("c1".to_owned()),
            sandbox: None,
            time: started(),
            cpu_nanoseconds: 2_500_000_000,
            working_set_bytes: 1 << 20,
            writable_layer_bytes: 0,
        }])
    }
}

impl Runtime for PodRuntime {
    fn version(&self) -> RuntimeFuture<'_, RuntimeVersion> {
        unused()
    }
    fn status(&self) -> RuntimeFuture<'_, RuntimeStatus> {
        unused()
    }
    fn subscribe(&self) -> EventReceiver {
        tokio::sync::broadcast::channel(1).1
    }
}

//! Events of the runtime: CRI's stream where it is offered, else containerd's own, else the difference of two lists.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use prost::Message;
use setpoint_container_runtime::Event;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::cri::{CALL_TIMEOUT, PodIndex};
use crate::proto::container::{ContainerStatusRequest, ContainerStatusResponse, ListContainersResponse};
use crate::proto::event::{ContainerEventResponse, Envelope, SubscribeRequest, TaskEvent};
use crate::proto::sandbox::ListPodSandboxResponse;
use crate::proto::{Empty, values};
use setpoint_grpc::{Channel, Code, Status};

/// How often sandboxes and containers are listed where the runtime has no events, and how long to wait after a stream
/// broke.
const RELIST_INTERVAL: Duration = Duration::from_secs(1);

/// How often and how many times the status of a container is read until it shows an exit.
const SETTLE_INTERVAL: Duration = Duration::from_millis(10);
const SETTLE_ATTEMPTS: u32 = 200;

/// The topics of containerd's events that change the status of a container.
const TOPICS: &[&str] = &["/tasks/start", "/tasks/exit", "/tasks/oom"];

/// Delivers events until it is dropped. After each new connection all pods are to be looked at.
pub(crate) async fn run(channel: Arc<Channel>, pods: Arc<PodIndex>, events: broadcast::Sender<Event>) {
    let source = EventSource {
        channel,
        pods,
        events,
    };
    loop {
        let ended = match source.follow_cri().await {
            Err(status) if status.code == Code::UNIMPLEMENTED => source.follow_containerd().await,
            ended => ended,
        };
        match ended {
            Err(status) if status.code == Code::UNIMPLEMENTED => source.relist().await,
            ended => tracing::debug!(?ended, "the event stream of the container runtime ended"),
        }
        tokio::time::sleep(RELIST_INTERVAL).await;
    }
}

/// The state and the pod of each sandbox and container, by id.
type Snapshot = HashMap<String, (i32, Option<String>)>;

struct EventSource {
    channel: Arc<Channel>,
    pods: Arc<PodIndex>,
    events: broadcast::Sender<Event>,
}

impl EventSource {
    async fn follow_cri(&self) -> Result<(), Status> {
        let method = "runtime.v1.RuntimeService/GetContainerEvents";
        let mut stream = self.channel.server_stream(method, &Empty {}, Vec::new()).await?;
        self.send(None);
        while let Some(event) = stream.next_message::<ContainerEventResponse>().await? {
            let metadata = event.pod_sandbox_status.and_then(|status| status.metadata);
            let uid = metadata.map(|metadata| metadata.uid);
            self.send(uid.or_else(|| self.pods.uid(&event.container_id)));
        }
        Ok(())
    }

    async fn follow_containerd(&self) -> Result<(), Status> {
        let method = "containerd.services.events.v1.Events/Subscribe";
        let request = SubscribeRequest {
            filters: TOPICS.iter().map(|topic| format!("topic==\"{topic}\"")).collect(),
        };
        let namespace = (
            HeaderName::from_static("containerd-namespace"),
            HeaderValue::from_static("k8s.io"),
        );
        let mut stream = self
            .channel
            .server_stream(method, &request, vec![namespace])
            .await?;
        self.send(None);
        let mut settling = JoinSet::new();
        loop {
            tokio::select! {
                received = stream.next_message::<Envelope>() => {
                    let Some(envelope) = received? else { return Ok(()) };
                    if let Some(id) = container_of(&envelope) {
                        settling.spawn(await_exit(self.channel.clone(), id, envelope.topic));
                    }
                }
                Some(settled) = settling.join_next() => {
                    self.send(settled.ok().and_then(|id| self.pods.uid(&id)));
                }
            }
        }
    }

    /// Lists until a list fails.
    async fn relist(&self) {
        let mut last = Snapshot::new();
        while let Ok(now) = self.list().await {
            for id in changed(&last, &now) {
                let uid = now
                    .get(&id)
                    .or_else(|| last.get(&id))
                    .and_then(|(_, uid)| uid.clone());
                self.send(uid);
            }
            last = now;
            tokio::time::sleep(RELIST_INTERVAL).await;
        }
    }

    async fn list(&self) -> Result<Snapshot, Status> {
        let sandboxes: ListPodSandboxResponse = self.unary("ListPodSandbox").await?;
        let containers: ListContainersResponse = self.unary("ListContainers").await?;
        let mut snapshot = Snapshot::new();
        for sandbox in sandboxes.items {
            let uid = sandbox.metadata.map(|metadata| metadata.uid);
            snapshot.insert(sandbox.id, (sandbox.state, uid));
        }
        for container in containers.containers {
            let uid = snapshot
                .get(&container.pod_sandbox_id)
                .and_then(|(_, uid)| uid.clone());
            snapshot.insert(container.id, (container.state, uid));
        }
        Ok(snapshot)
    }

    async fn unary<A: Message + Default>(&self, method: &str) -> Result<A, Status> {
        let method = format!("runtime.v1.RuntimeService/{method}");
        self.channel
            .unary(&method, &Empty {}, CALL_TIMEOUT, Vec::new())
            .await
    }

    /// Sends an event; without receivers it is dropped.
    fn send(&self, pod_uid: Option<String>) {
        self.events.send(Event { pod_uid }).ok();
    }
}

/// Waits until the status of a container shows the exit that an event of containerd reported: the event comes first.
async fn await_exit(channel: Arc<Channel>, id: String, topic: String) -> String {
    let request = ContainerStatusRequest {
        container_id: id.clone(),
        verbose: false,
    };
    let method = "runtime.v1.RuntimeService/ContainerStatus";
    for _ in 0..SETTLE_ATTEMPTS {
        let status = channel
            .unary::<_, ContainerStatusResponse>(method, &request, CALL_TIMEOUT, Vec::new())
            .await;
        let is_running = status.is_ok_and(|found| {
            found
                .status
                .is_some_and(|status| status.state == values::CONTAINER_RUNNING)
        });
        if topic != "/tasks/exit" || !is_running {
            break;
        }
        tokio::time::sleep(SETTLE_INTERVAL).await;
    }
    id
}

/// The container whose first process an event of containerd is about. Other processes, such as those of probes, do not
/// change the container.
fn container_of(envelope: &Envelope) -> Option<String> {
    let event = envelope
        .event
        .as_ref()
        .filter(|_| envelope.namespace == "k8s.io")?;
    if envelope.topic != "/tasks/exit" {
        return ContainerOnly::decode(&*event.value)
            .ok()
            .map(|event| event.container_id);
    }
    let exit = TaskEvent::decode(&*event.value).ok()?;
    (exit.container_id == exit.process_id).then_some(exit.container_id)
}

/// The first field of every event about a task; the others differ.
#[derive(Clone, PartialEq, prost::Message)]
struct ContainerOnly {
    #[prost(string, tag = "1")]
    container_id: String,
}

/// The ids whose state differs, or that are in one snapshot only.
fn changed(last: &Snapshot, now: &Snapshot) -> Vec<String> {
    let state = |snapshot: &Snapshot, id: &String| snapshot.get(id).map(|(state, _)| *state);
    let mut ids: Vec<_> = last.keys().chain(now.keys()).cloned().collect();
    ids.retain(|id| state(last, id) != state(now, id));
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::event::Any;

    fn exit(container: &str, process: &str) -> Envelope {
        let event = TaskEvent {
            container_id: container.to_owned(),
            process_id: process.to_owned(),
        };
        Envelope {
            namespace: "k8s.io".to_owned(),
            topic: "/tasks/exit".to_owned(),
            event: Some(Any {
                type_url: "containerd.events.TaskExit".to_owned(),
                value: event.encode_to_vec(),
            }),
        }
    }

    #[test]
    fn the_exit_of_a_probe_is_no_event_of_its_container() {
        assert_eq!(container_of(&exit("c1", "c1")), Some("c1".to_owned()));
        assert_eq!(container_of(&exit("c1", "exec-7")), None);
    }

    #[test]
    fn new_changed_and_removed_ids_are_reported_once() {
        let snapshot = |rows: &[(&str, i32)]| -> Snapshot {
            rows.iter()
                .map(|(id, state)| ((*id).to_owned(), (*state, None)))
                .collect()
        };
        let last = snapshot(&[("a", 1), ("b", 1), ("c", 1)]);
        let now = snapshot(&[("b", 1), ("c", 2), ("d", 0)]);
        assert_eq!(changed(&last, &now), ["a", "c", "d"]);
    }
}

//! `/exec`, `/attach` and `/run`: commands in containers.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use setpoint_container_runtime::stream::TerminalSize;
use setpoint_container_runtime::{ContainerId, ContainerRecord, Error, ExecRequest};
use setpoint_streaming::Limits;
use setpoint_streaming::negotiation::{self, Rejection};
use setpoint_streaming::remote_command::{self, Command, Options};
use setpoint_streaming::status::Outcome;
use tokio::sync::mpsc;

use super::agent_api::AgentApi;
use super::body::{Body, text};
use super::connection::{Reply, Server, upgraded};
use super::containers;
use super::query::Query;

/// How long `/run` waits for its command.
const RUN_TIMEOUT: Duration = Duration::from_secs(120);

/// What a client does with a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Exec,
    Attach,
}

/// A container as a path names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContainerPath<'a> {
    pub(super) namespace: &'a str,
    pub(super) pod: &'a str,
    /// The pod's uid, if the path has one.
    pub(super) uid: Option<&'a str>,
    pub(super) container: &'a str,
}

/// Upgrades the connection and runs a command, or attaches.
pub(super) async fn stream(
    server: &Server,
    action: Action,
    path: ContainerPath<'_>,
    query: &Query,
    (headers, upgrade): (&HeaderMap, OnUpgrade),
) -> Result<Reply, Response<Body>> {
    let mut options = parse_options(query)?;
    let (record, is_terminal) = find(server, action, path).await?;
    if action == Action::Attach {
        options.tty = is_terminal;
        options.stderr &= !is_terminal;
    }
    let accepted = negotiation::remote_command(headers).map_err(|rejection| rejected(*rejection))?;
    let command: Vec<String> = query.all("command").map(str::to_owned).collect();
    let agent = server.agent.clone();
    let served = async move {
        let Some(connection) = upgraded(upgrade).await else {
            return;
        };
        let run: Command<'_> = Box::new(move |streams| match action {
            Action::Exec => Box::pin(exec(agent, record.id, command, (options.tty, streams))),
            Action::Attach => Box::pin(attach(agent, record.id, options.tty, streams)),
        });
        remote_command::serve(connection, accepted.protocol, options, Limits::default(), run).await;
    };
    Ok(Reply::upgrade(accepted.headers, Box::pin(served)))
}

/// Runs a command and returns its output.
pub(super) async fn run(
    server: &Server,
    path: ContainerPath<'_>,
    query: &Query,
) -> Result<Response<Body>, Response<Body>> {
    let (record, _) = find(server, Action::Exec, path).await?;
    let command: Vec<String> = query.value("cmd").split(' ').map(str::to_owned).collect();
    let run = server
        .agent
        .runtime()
        .exec_sync(&record.id, &command, RUN_TIMEOUT);
    let output = run.await.map_err(|error| internal(error.to_string()))?;
    let bytes = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&bytes);
    match output.exit_code {
        0 => Ok(text(StatusCode::OK, printed)),
        code => Err(internal(format!(
            "command '{}' exited with {code}: {printed}",
            command.join(" ")
        ))),
    }
}

/// The streams that a query requests.
fn parse_options(query: &Query) -> Result<Options, Response<Body>> {
    let is_set = |name| query.value(name) == "1";
    let options = Options {
        stdin: is_set("input"),
        stdout: is_set("output"),
        stderr: is_set("error") && !is_set("tty"),
        tty: is_set("tty"),
    };
    if !(options.stdin || options.stdout || options.stderr) {
        let message = "you must specify at least 1 of stdin, stdout, stderr";
        return Err(text(StatusCode::BAD_REQUEST, message));
    }
    Ok(options)
}

/// The running container, and whether it has a terminal.
async fn find(
    server: &Server,
    action: Action,
    path: ContainerPath<'_>,
) -> Result<(ContainerRecord, bool), Response<Body>> {
    let pod = server.find_pod(path.namespace, path.pod);
    let pod = pod.filter(|pod| path.uid.is_none_or(|uid| uid == pod.metadata.uid));
    let Some(pod) = pod else {
        return Err(text(StatusCode::NOT_FOUND, "pod does not exist"));
    };
    let found = containers::find_running(server.agent.runtime(), &pod, path.container).await;
    let found = found.map_err(|error| internal(error.to_string()))?;
    let is_terminal = pod
        .find_container(path.container)
        .is_some_and(|container| container.tty);
    match (found, action) {
        (Some(record), _) => Ok((record, is_terminal)),
        (None, Action::Exec) => Err(internal(format!("container not found ({:?})", path.container))),
        (None, Action::Attach) => Err(internal(format!(
            "container {} not found in pod {}_{}",
            path.container, path.pod, path.namespace
        ))),
    }
}

async fn exec(
    agent: Arc<dyn AgentApi>,
    id: ContainerId,
    command: Vec<String>,
    (tty, streams): (bool, remote_command::Streams),
) -> Outcome {
    let (streams, sizes) = convert(streams);
    let request = ExecRequest {
        command: command.clone(),
        tty,
    };
    let run = agent.runtime().exec(&id, request, streams);
    match forwarding(run, sizes).await {
        Ok(0) => Outcome::Success,
        Ok(code) => Outcome::Exited {
            code,
            message: format!(
                "error executing command [{}], exit code {code}",
                command.join(" ")
            ),
        },
        Err(error) => Outcome::Failed(format!("error executing command in container: {error}")),
    }
}

async fn attach(
    agent: Arc<dyn AgentApi>,
    id: ContainerId,
    tty: bool,
    streams: remote_command::Streams,
) -> Outcome {
    let (streams, sizes) = convert(streams);
    let attached = agent.runtime().attach(&id, tty, streams);
    match forwarding(attached, sizes).await {
        Ok(()) => Outcome::Success,
        Err(error) => Outcome::Failed(format!("error attaching to container: {error}")),
    }
}

/// The terminal sizes of a client, and where the runtime receives them.
type Sizes = Option<(
    mpsc::Receiver<remote_command::TerminalSize>,
    mpsc::Sender<TerminalSize>,
)>;

/// The streams in the runtime's types.
fn convert(streams: remote_command::Streams) -> (setpoint_container_runtime::Streams, Sizes) {
    let (resize, sizes) = match streams.resize {
        None => (None, None),
        Some(incoming) => {
            let (sender, receiver) = mpsc::channel(1);
            (Some(receiver), Some((incoming, sender)))
        }
    };
    let streams = setpoint_container_runtime::Streams {
        stdin: streams.stdin,
        stdout: streams.stdout,
        stderr: streams.stderr,
        resize,
    };
    (streams, sizes)
}

/// Runs a command while terminal sizes are forwarded to it.
async fn forwarding<T>(run: impl Future<Output = Result<T, Error>>, sizes: Sizes) -> Result<T, Error> {
    let forward = async {
        if let Some((mut incoming, sender)) = sizes {
            while let Some(remote_command::TerminalSize { width, height }) = incoming.recv().await {
                if sender.send(TerminalSize { width, height }).await.is_err() {
                    break;
                }
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        result = run => result,
        () = forward => unreachable!("the sizes are forwarded as long as the command runs"),
    }
}

pub(super) fn internal(message: String) -> Response<Body> {
    text(StatusCode::INTERNAL_SERVER_ERROR, message)
}

/// The response to an upgrade that cannot be negotiated.
pub(super) fn rejected(rejection: Rejection) -> Response<Body> {
    let mut response = text(rejection.status, rejection.message);
    response.headers_mut().extend(rejection.headers);
    response
}

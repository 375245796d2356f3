//! The contract of runtimes: checks that every implementation passes, for their tests.
//!
//! Start reading at [`check`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::{
    ContainerConfig, ContainerId, ContainerState, Error, ErrorKind, Runtime, SandboxConfig, SandboxId,
    SandboxState,
};

/// The longest time of a command, and the grace period of a stop.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often a state is read that is reached by itself.
const MAX_READS: usize = 200;

/// A runtime and the configurations that it is checked with.
pub struct Contract<'a> {
    /// The runtime, without any sandbox.
    pub runtime: &'a dyn Runtime,
    /// The configuration of a sandbox with an address.
    pub sandbox: SandboxConfig,
    /// A container that runs until it is stopped.
    pub running: ContainerConfig,
    /// A container that exits soon, with this code.
    pub exiting: (ContainerConfig, i32),
    /// Lets some time pass.
    pub wait: &'a (dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Sync),
}

/// Why a runtime breaks the contract.
#[derive(Debug, thiserror::Error)]
pub enum Violation {
    /// A call failed that must not.
    #[error("{0}: {1}")]
    Failed(&'static str, Error),
    /// A call did not have the promised result.
    #[error("{0}")]
    Broken(String),
}

/// Checks the whole contract.
pub async fn check(contract: &Contract<'_>) -> Result<(), Violation> {
    check_absent(contract).await?;
    check_sandbox(contract).await?;
    check_container(contract).await?;
    check_exit(contract).await?;
    check_removal(contract).await
}

/// What does not exist is not found, and can be stopped and removed.
async fn check_absent(contract: &Contract<'_>) -> Result<(), Violation> {
    let runtime = contract.runtime;
    let (sandbox, container) = (SandboxId("absent".to_owned()), ContainerId("absent".to_owned()));
    let found = call("sandbox", runtime.sandbox(&sandbox).await)?;
    ensure(found.is_none(), "a sandbox that does not exist is found")?;
    let found = call("container", runtime.container(&container).await)?;
    ensure(found.is_none(), "a container that does not exist is found")?;
    call("stop_sandbox", runtime.stop_sandbox(&sandbox).await)?;
    call("remove_sandbox", runtime.remove_sandbox(&sandbox).await)?;
    call(
        "stop_container",
        runtime.stop_container(&container, TIMEOUT).await,
    )?;
    call("remove_container", runtime.remove_container(&container).await)?;
    match runtime.start_container(&container).await {
        Err(error) => ensure(
            error.kind == ErrorKind::NotFound,
            "starting an absent container is not NotFound",
        ),
        Ok(()) => broken("an absent container is started"),
    }
}

/// A sandbox is ready and has an address until it is stopped, and exists until it is removed.
async fn check_sandbox(contract: &Contract<'_>) -> Result<(), Violation> {
    let runtime = contract.runtime;
    let id = call("run_sandbox", runtime.run_sandbox(contract.sandbox.clone()).await)?;
    let Some(sandbox) = call("sandbox", runtime.sandbox(&id).await)? else {
        return broken("a new sandbox is not found");
    };
    ensure(sandbox.state == SandboxState::Ready, "a new sandbox is not ready")?;
    ensure(!sandbox.addresses.is_empty(), "a new sandbox has no address")?;
    ensure(
        sandbox.pod.uid == contract.sandbox.pod.uid,
        "a sandbox has another pod",
    )?;
    let listed = call("list_sandboxes", runtime.list_sandboxes().await)?;
    ensure(
        listed.iter().any(|listed| listed.id == id),
        "a sandbox is not listed",
    )?;
    for _ in 0..2 {
        call("stop_sandbox", runtime.stop_sandbox(&id).await)?;
    }
    let stopped = call("sandbox", runtime.sandbox(&id).await)?;
    let is_stopped = stopped.is_some_and(|sandbox| sandbox.state == SandboxState::NotReady);
    ensure(is_stopped, "a stopped sandbox is ready or gone")?;
    for _ in 0..2 {
        call("remove_sandbox", runtime.remove_sandbox(&id).await)?;
    }
    let removed = call("sandbox", runtime.sandbox(&id).await)?;
    ensure(removed.is_none(), "a removed sandbox is found")
}

/// A container is created, runs, executes commands, is stopped and removed.
async fn check_container(contract: &Contract<'_>) -> Result<(), Violation> {
    let runtime = contract.runtime;
    let (sandbox, id) = create(contract, &contract.running).await?;
    ensure(
        state(contract, &id).await? == ContainerState::Created,
        "a new container is not created",
    )?;
    call("start_container", runtime.start_container(&id).await)?;
    let is_running = matches!(state(contract, &id).await?, ContainerState::Running { .. });
    ensure(is_running, "a started container does not run")?;
    let listed = call("list_containers", runtime.list_containers().await)?;
    let Some(listed) = listed.into_iter().find(|listed| listed.id == id) else {
        return broken("a container is not listed");
    };
    let config = &contract.running;
    let is_same = listed.sandbox == sandbox && listed.name == config.name && listed.attempt == config.attempt;
    ensure(is_same, "a listed container has another sandbox, name or attempt")?;
    let command = ["true".to_owned()];
    let output = call("exec_sync", runtime.exec_sync(&id, &command, TIMEOUT).await)?;
    ensure(output.exit_code == 0, "the command true fails")?;
    for _ in 0..2 {
        call("stop_container", runtime.stop_container(&id, TIMEOUT).await)?;
    }
    let is_exited = matches!(state(contract, &id).await?, ContainerState::Exited(_));
    ensure(is_exited, "a stopped container has not exited")?;
    for _ in 0..2 {
        call("remove_container", runtime.remove_container(&id).await)?;
    }
    let removed = call("container", runtime.container(&id).await)?;
    ensure(removed.is_none(), "a removed container is found")?;
    remove(contract, &sandbox).await
}

/// A container that exits reports its code and its times.
async fn check_exit(contract: &Contract<'_>) -> Result<(), Violation> {
    let (config, code) = &contract.exiting;
    let (sandbox, id) = create(contract, config).await?;
    call("start_container", contract.runtime.start_container(&id).await)?;
    for _ in 0..MAX_READS {
        if let ContainerState::Exited(exit) = state(contract, &id).await? {
            ensure(exit.exit_code == *code, "a container has another exit code")?;
            ensure(
                exit.started_at <= exit.finished_at,
                "a container exited before it started",
            )?;
            return remove(contract, &sandbox).await;
        }
        (contract.wait)().await;
    }
    broken("a container does not exit")
}

/// A removed sandbox takes its containers with it.
async fn check_removal(contract: &Contract<'_>) -> Result<(), Violation> {
    let (sandbox, id) = create(contract, &contract.running).await?;
    call("start_container", contract.runtime.start_container(&id).await)?;
    remove(contract, &sandbox).await?;
    let left = call("container", contract.runtime.container(&id).await)?;
    ensure(left.is_none(), "a container of a removed sandbox is found")
}

async fn create(
    contract: &Contract<'_>,
    config: &ContainerConfig,
) -> Result<(SandboxId, ContainerId), Violation> {
    let runtime = contract.runtime;
    let sandbox = call("run_sandbox", runtime.run_sandbox(contract.sandbox.clone()).await)?;
    let created = runtime
        .create_container(&sandbox, config.clone(), &contract.sandbox)
        .await;
    Ok((sandbox, call("create_container", created)?))
}

async fn remove(contract: &Contract<'_>, sandbox: &SandboxId) -> Result<(), Violation> {
    call("stop_sandbox", contract.runtime.stop_sandbox(sandbox).await)?;
    call("remove_sandbox", contract.runtime.remove_sandbox(sandbox).await)
}

async fn state(contract: &Contract<'_>, id: &ContainerId) -> Result<ContainerState, Violation> {
    match call("container", contract.runtime.container(id).await)? {
        Some(container) => Ok(container.state),
        None => broken("a container is not found"),
    }
}

fn call<T>(name: &'static str, result: Result<T, Error>) -> Result<T, Violation> {
    result.map_err(|error| Violation::Failed(name, error))
}

fn ensure(holds: bool, otherwise: &str) -> Result<(), Violation> {
    match holds {
        true => Ok(()),
        false => broken(otherwise),
    }
}

fn broken<T>(how: &str) -> Result<T, Violation> {
    Err(Violation::Broken(how.to_owned()))
}

impl fmt::Debug for Contract<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contract")
            .field("runtime", &self.runtime)
            .finish_non_exhaustive()
    }
}

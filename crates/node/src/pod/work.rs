//! [`PodExecutor`]: carries out the plan for a pod with the runtime.
//!
//! Its work may take long: images are pulled, containers take their grace period to stop. Therefore it runs in a task of its
//! own unless it completes at once, and writes what it did to the record of the pod as it goes. The next reconcile reads
//! the state from the runtime; nothing depends on the outcome of the task.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1;
use setpoint_api::Clock;
use setpoint_container_runtime::{ContainerId, ContainerState, Error, ErrorKind, Runtime, SandboxId};
use setpoint_runtime::{Client, EventType};
use tokio_util::sync::CancellationToken;

use super::backoff::Backoff;
use super::bound_pod::{BoundPod, ContainerIndex, ContainerKind, is_sidecar};
use super::events::PodEvents;
use super::observed::ObservedPod;
use super::plan::{Plan, find_backoff};
use super::record::{SharedRecord, WaitingReason};
use super::setup::{ContainerSetup, Setup};
use crate::static_pods::StaticPods;
use crate::volumes::MountedVolumes;

/// Work that failed is tried again after this.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// This many containers of one name are kept: the newest, and the one before for its exit status and its log.
const KEPT_CONTAINERS: usize = 2;

/// Carries out plans.
#[derive(Debug)]
pub(crate) struct PodExecutor {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: PodEvents,
    pub(crate) client: Client,
    pub(crate) setup: Setup,
    pub(crate) static_pods: StaticPods,
}

/// A plan to carry out, and what it was made for.
#[derive(Debug)]
pub(crate) struct SyncWork {
    pub(crate) pod: Arc<BoundPod>,
    pub(crate) record: SharedRecord,
    pub(crate) observed: ObservedPod,
    pub(crate) plan: Plan,
    pub(crate) cancel: CancellationToken,
}

impl PodExecutor {
    /// Carries out a plan, in the kubelet's order.
    pub(crate) async fn sync(&self, work: SyncWork) {
        let pod = &*work.pod;
        if work.plan.kill_pod {
            if work.plan.sandbox.is_some() && !work.observed.sandboxes.is_empty() {
                let message = "Pod sandbox changed, it will be killed and re-created.";
                self.events.pod(pod, EventType::Normal, "SandboxChanged", message);
            }
            self.stop_pod(pod, &work.observed, pod.grace()).await;
            if work.plan.sandbox.is_none() && work.plan.starts.is_empty() {
                self.setup.remove_cgroup(pod.uid(), &*self.clock).await;
            }
        }
        for kill in &work.plan.kills {
            let grace = kill_grace(pod, kill.reason, &kill.name);
            self.kill_container(pod, (&kill.id, &kill.name), &kill.message, grace)
                .await;
        }
        if work.plan.sandbox.is_none() && work.plan.starts.is_empty() {
            return;
        }
        if let Err(message) = self.setup.ensure_cgroup(pod) {
            return self.setup_failed(&work, "FailedCreatePodContainer", message);
        }
        let volumes = match self.setup.mount(pod).await {
            Ok(volumes) => volumes,
            Err(message) => return self.setup_failed(&work, "FailedMount", message),
        };
        let sandbox = match work.plan.sandbox {
            Some(attempt) => match self.create_sandbox(&work, attempt).await {
                Ok(sandbox) => sandbox,
                Err(error) => return self.sandbox_failed(&work, &error),
            },
            None => match work.observed.sandboxes.first() {
                Some(sandbox) => sandbox.id.clone(),
                None => return,
            },
        };
        self.start_containers(&work, &sandbox, &volumes).await;
        self.remove_old_containers(&work).await;
    }

    /// Whether containers are simulated: they have nothing to probe, and lifecycle hooks have nothing to call.
    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self.setup, Setup::Simulated)
    }

    async fn create_sandbox(&self, work: &SyncWork, attempt: u32) -> Result<SandboxId, Error> {
        let config = self.setup.sandbox_config(&work.pod, attempt);
        let config = config.map_err(|message| Error::new(ErrorKind::Other, message))?;
        let id = self.runtime.run_sandbox(config).await?;
        work.record.lock().sandboxes.push(id.clone());
        Ok(id)
    }

    fn sandbox_failed(&self, work: &SyncWork, error: &Error) {
        let message = format!("Failed to create pod sandbox: {error}");
        self.events
            .pod(&work.pod, EventType::Warning, "FailedCreatePodSandBox", message);
        self.retry_later(&work.record, "");
    }

    fn setup_failed(&self, work: &SyncWork, reason: &str, message: String) {
        self.events.pod(&work.pod, EventType::Warning, reason, message);
        self.retry_later(&work.record, "");
        for start in &work.plan.starts {
            self.retry_later(&work.record, &work.pod.container(*start).name);
        }
    }

    async fn start_containers(&self, work: &SyncWork, sandbox: &SandboxId, volumes: &MountedVolumes) {
        for start in &work.plan.starts {
            if work.cancel.is_cancelled() {
                return;
            }
            let container = work.pod.container(*start);
            let started = self.start_container(work, *start, (sandbox, volumes)).await;
            let has_started = started.is_ok();
            let mut record = work.record.lock();
            match started {
                Ok(()) => {
                    record.waiting.remove(&container.name);
                    record.retries.remove(&container.name);
                }
                Err(waiting) => {
                    record.waiting.insert(container.name.clone(), waiting);
                }
            }
            drop(record);
            if !has_started && start.kind == ContainerKind::Init && !is_sidecar(container) {
                return;
            }
        }
    }

    async fn start_container(
        &self,
        work: &SyncWork,
        at: ContainerIndex,
        (sandbox, volumes): (&SandboxId, &MountedVolumes),
    ) -> Result<(), WaitingReason> {
        let (pod, container) = (&*work.pod, work.pod.container(at));
        self.update_backoff(work, container);
        self.ensure_volume_images(pod, container, &work.record, &work.cancel)
            .await?;
        let image = self
            .ensure_image(pod, container, &work.record, &work.cancel)
            .await?;
        let failed =
            |reason: &'static str| move |error: Error| self.start_failed(work, container, reason, &error);
        let record = self
            .runtime
            .sandbox(sandbox)
            .await
            .map_err(failed("CreateContainerError"))?;
        let setup = ContainerSetup {
            pod,
            at,
            attempt: attempt(work, container),
            image: &image,
            addresses: &record.map(|sandbox| sandbox.addresses).unwrap_or_default(),
            volumes,
            target: target(work, at),
        };
        let config = self.setup.container_config(setup).await;
        let config = config.map_err(|message| Error::new(ErrorKind::Other, message));
        let config = config.map_err(failed("CreateContainerConfigError"))?;
        let sandbox_config = self.setup.sandbox_config(pod, 0);
        let sandbox_config = sandbox_config.map_err(|message| Error::new(ErrorKind::Other, message));
        let sandbox_config = sandbox_config.map_err(failed("CreateContainerConfigError"))?;
        let created = self
            .runtime
            .create_container(sandbox, config, &sandbox_config)
            .await;
        let id = created.map_err(failed("CreateContainerError"))?;
        {
            let mut record = work.record.lock();
            record.containers.push(id.clone());
            let resources = container.resources.clone().unwrap_or_default();
            record.actuated.insert(id.clone(), resources);
        }
        self.events
            .normal(pod, &container.name, "Created", "Container created");
        self.runtime
            .start_container(&id)
            .await
            .map_err(failed("RunContainerError"))?;
        self.events
            .normal(pod, &container.name, "Started", "Container started");
        let hook = self.run_post_start(pod, container, (sandbox, &id), &work.cancel);
        if let Err(message) = hook.await {
            let grace = pod.grace();
            self.kill_container(pod, (&id, &container.name), "FailedPostStartHook", grace)
                .await;
            return Err(WaitingReason::new("PostStartHookError", message));
        }
        Ok(())
    }

    fn start_failed(
        &self,
        work: &SyncWork,
        container: &v1::Container,
        reason: &str,
        error: &Error,
    ) -> WaitingReason {
        let message = format!("Error: {error}");
        self.events.warning(&work.pod, &container.name, "Failed", message);
        self.retry_later(&work.record, &container.name);
        WaitingReason::new(reason, error.to_string())
    }

    /// A container that exited counts as failed once more when it is restarted.
    fn update_backoff(&self, work: &SyncWork, container: &v1::Container) {
        let Some((exited, exit)) = work.observed.newest_exited(&container.name) else {
            return;
        };
        let mut record = work.record.lock();
        let previous = find_backoff(&record.backoffs, exited);
        let backoff = Backoff::after(previous, exit.finished_at, self.clock.now());
        record.backoffs.insert(container.name.clone(), backoff);
    }

    /// Removes containers that exited, except the newest of each name.
    async fn remove_old_containers(&self, work: &SyncWork) {
        for (at, container) in work.observed.containers.iter().enumerate() {
            let newer = work.observed.containers[..at].iter();
            let mut starts = work.plan.starts.iter();
            let is_restarted = starts.any(|start| work.pod.container(*start).name == container.name);
            let newer = newer.filter(|other| other.name == container.name).count();
            let is_exited = matches!(container.state, ContainerState::Exited(_));
            if newer + usize::from(is_restarted) >= KEPT_CONTAINERS && is_exited {
                self.remove_container(&work.record, &container.id).await;
            }
        }
    }

    pub(crate) async fn remove_container(&self, record: &SharedRecord, id: &ContainerId) {
        match self.runtime.remove_container(id).await {
            Ok(()) => record.lock().remove_container(id),
            Err(error) => tracing::debug!(container = %id.0, %error, "cannot remove a container"),
        }
    }

    /// The start of this container, or with an empty name that of the sandbox, is tried again after a while.
    pub(super) fn retry_later(&self, record: &SharedRecord, name: &str) {
        let now = self.clock.now();
        let at = now.saturating_add(RETRY_AFTER).unwrap_or(now);
        record.lock().retries.insert(name.to_owned(), at);
    }
}

/// The container whose processes an ephemeral container shares.
fn target(work: &SyncWork, at: ContainerIndex) -> Option<&ContainerId> {
    if at.kind != ContainerKind::Ephemeral {
        return None;
    }
    let ephemeral = work.pod.spec().ephemeral_containers.as_ref()?.get(at.index)?;
    let target = ephemeral
        .target_container_name
        .as_deref()
        .filter(|name| !name.is_empty())?;
    work.observed.newest(target).map(|target| &target.id)
}

/// How often the container was created before, by the runtime or else by the pod's status.
fn attempt(work: &SyncWork, container: &v1::Container) -> u32 {
    if let Some(newest) = work.observed.newest(&container.name) {
        return newest.attempt + 1;
    }
    let status = work.pod.status();
    let statuses = [&status.container_statuses, &status.init_container_statuses];
    let mut statuses = statuses.into_iter().flatten().flatten();
    let reported = statuses.find(|status| status.name == container.name && status.container_id.is_some());
    reported.map_or(0, |status| {
        u32::try_from(status.restart_count).map_or(0, |count| count + 1)
    })
}

/// The grace period of a container that is stopped by itself. A probe may have one of its own.
fn kill_grace(pod: &BoundPod, reason: super::plan::KillReason, name: &str) -> Duration {
    use super::plan::KillReason;
    let container = pod.find_container(name).map(|(_, container)| container);
    let probe = container.and_then(|container| match reason {
        KillReason::StartupProbe => container.startup_probe.as_ref(),
        KillReason::LivenessProbe => container.liveness_probe.as_ref(),
        KillReason::Other => None,
    });
    let own = probe.and_then(|probe| probe.termination_grace_period_seconds);
    own.map_or_else(
        || pod.grace(),
        |seconds| Duration::from_secs(seconds.max(0).unsigned_abs()),
    )
}

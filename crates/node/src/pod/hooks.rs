//! Lifecycle hooks of containers: after their start, and before their stop.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler};
use setpoint_container_runtime::{ContainerId, SandboxId};
use tokio_util::sync::CancellationToken;

use super::bound_pod::BoundPod;
use super::work::PodExecutor;
use crate::probes::{Endpoint, http_get};

/// The longest time of a hook after the start, which has no other limit.
const MAX_POST_START: Duration = Duration::from_secs(600);
/// The time of a hook's HTTP request.
const HTTP_TIMEOUT: Duration = Duration::from_secs(30);

impl PodExecutor {
    /// Runs the hook after the start of a container, until it is cancelled. `Err` is the text of its failure.
    pub(super) async fn run_post_start(
        &self,
        pod: &BoundPod,
        container: &Container,
        (sandbox, id): (&SandboxId, &ContainerId),
        cancel: &CancellationToken,
    ) -> Result<(), String> {
        let hook = container
            .lifecycle
            .as_ref()
            .and_then(|lifecycle| lifecycle.post_start.as_ref());
        let Some(hook) = hook.filter(|_| !self.is_simulated()) else {
            return Ok(());
        };
        let sandbox = self.runtime.sandbox(sandbox).await.ok().flatten();
        let address = sandbox.and_then(|sandbox| sandbox.addresses.first().copied());
        let endpoint = endpoint(container, id, address);
        let run = self.run_hook(hook, &endpoint, MAX_POST_START);
        // The pod is deleted meanwhile: its end stops the container.
        let run = cancel.run_until_cancelled(run).await.unwrap_or(Ok(()));
        run.inspect_err(|_| {
            let message = "PostStartHook failed";
            self.events
                .warning(pod, &container.name, "FailedPostStartHook", message);
        })
    }

    /// Runs the hook before the stop of a container, for at most the grace period. Returns what is left of that.
    pub(super) async fn run_pre_stop(
        &self,
        pod: &BoundPod,
        container: &Container,
        id: &ContainerId,
        grace: Duration,
    ) -> Duration {
        let hook = container
            .lifecycle
            .as_ref()
            .and_then(|lifecycle| lifecycle.pre_stop.as_ref());
        let Some(hook) = hook.filter(|_| !self.is_simulated() && !grace.is_zero()) else {
            return grace;
        };
        let began = self.clock.now();
        let address = pod.status().pod_ip.as_ref().and_then(|ip| ip.parse().ok());
        let endpoint = endpoint(container, id, address);
        let run = tokio::select! {
            biased;
            run = self.run_hook(hook, &endpoint, grace) => run,
            () = self.clock.sleep(grace) => Ok(()),
        };
        if run.is_err() {
            self.events
                .warning(pod, &container.name, "FailedPreStopHook", "PreStopHook failed");
        }
        let passed = Duration::try_from(self.clock.now().duration_since(began)).unwrap_or_default();
        grace.saturating_sub(passed)
    }

    async fn run_hook(
        &self,
        hook: &LifecycleHandler,
        endpoint: &Endpoint,
        timeout: Duration,
    ) -> Result<(), String> {
        if let Some(exec) = &hook.exec {
            let command = exec.command.clone().unwrap_or_default();
            let output = self
                .runtime
                .exec_sync(&endpoint.container, &command, timeout)
                .await;
            let output = output.map_err(|error| error.to_string())?;
            let succeeded = output.exit_code == 0;
            let text = || format!("command {:?} exited with {}", command.join(" "), output.exit_code);
            return succeeded.then_some(()).ok_or_else(text);
        }
        if let Some(request) = &hook.http_get {
            let timeout = timeout.min(HTTP_TIMEOUT);
            return http_get(&*self.clock, request, endpoint, timeout)
                .await
                .map(|_| ());
        }
        if let Some(sleep) = &hook.sleep {
            let seconds = Duration::from_secs(sleep.seconds.max(0).unsigned_abs());
            self.clock.sleep(seconds.min(timeout)).await;
        }
        Ok(())
    }
}

fn endpoint(container: &Container, id: &ContainerId, address: Option<IpAddr>) -> Endpoint {
    Endpoint {
        container: id.clone(),
        address,
        ports: container.ports.clone().unwrap_or_default(),
    }
}

//! Waiting for plans: `--wait` and `plan wait`.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use setpoint_api::{Clock, SystemClock};
use setpoint_client::Client;

use super::message;
use crate::api::{ExecutionStatus, Instance, InstanceStatus};

/// Flags of commands that may wait.
#[derive(Debug, Clone, Args)]
pub struct WaitArgs {
    /// Wait until the plan is complete.
    #[arg(long)]
    wait: bool,
    /// How long to wait, in seconds.
    #[arg(long, default_value_t = 300)]
    wait_time: u64,
}

impl WaitArgs {
    /// The time to wait, if any.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.wait.then_some(Duration::from_secs(self.wait_time))
    }
}

/// Waits until the last plan is complete. With an old status, a plan must have started since.
pub(super) async fn for_instance(
    client: &Client,
    (namespace, name): (&str, &str),
    old: Option<&InstanceStatus>,
    timeout: Duration,
) -> Result<()> {
    let is_done = async || {
        let instance = client
            .namespaced::<Instance>(namespace)
            .get(name)
            .await
            .map_err(message)?;
        is_complete(&instance.to_owned()?, old)
    };
    poll(timeout, is_done).await
}

/// Waits until the instance is gone.
pub(super) async fn for_deletion(
    client: &Client,
    (namespace, name): (&str, &str),
    timeout: Duration,
) -> Result<()> {
    let is_gone = async || match client.namespaced::<Instance>(namespace).get(name).await {
        Err(status) if status.is_not_found() => Ok(true),
        Err(status) => Err(message(status)),
        Ok(_) => Ok(false),
    };
    poll(timeout, is_gone).await
}

/// Whether the last plan is complete. A plan that has failed for ever is an error.
fn is_complete(instance: &Instance, old: Option<&InstanceStatus>) -> Result<bool> {
    let status = &instance.status.plan_status;
    if let Some(old) = old {
        let uid = |name: &String| status.get(name).map(|plan| plan.uid.as_str()).unwrap_or_default();
        if old.plan_status.iter().all(|(name, plan)| plan.uid == uid(name)) {
            return Ok(false);
        }
    }
    match instance.last_executed_plan() {
        Some(plan) if plan.status == ExecutionStatus::FatalError => {
            bail!("plan {} of instance {} has failed", plan.name, instance.name())
        }
        Some(plan) => Ok(plan.status == ExecutionStatus::Complete),
        None => Ok(false),
    }
}

async fn poll(timeout: Duration, mut is_done: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let clock = SystemClock::new();
    for _ in 0..=timeout.as_secs() {
        if is_done().await? {
            return Ok(());
        }
        clock.sleep(Duration::from_secs(1)).await;
    }
    bail!("timed out waiting for the condition")
}

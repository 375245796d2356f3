//! `update` and `uninstall`.

use anyhow::{Result, anyhow, bail};
use clap::Args;
use serde_json::json;
use setpoint_api::options::{DeleteOptions, DeletionPropagation};
use setpoint_client::{Client, Patch};

use super::{ParameterArgs, Settings, message, wait};
use crate::api::{API_VERSION, Instance};

/// The flags of `update`.
#[derive(Debug, Args)]
pub struct UpdateArgs {
    /// The name of the instance.
    #[arg(long)]
    instance: String,
    #[command(flatten)]
    parameters: ParameterArgs,
    #[command(flatten)]
    wait: wait::WaitArgs,
}

/// The flags of `uninstall`.
#[derive(Debug, Args)]
pub struct UninstallArgs {
    /// The name of the instance.
    #[arg(long)]
    instance: String,
    #[command(flatten)]
    wait: wait::WaitArgs,
}

pub(super) async fn update(args: &UpdateArgs, settings: &Settings) -> Result<()> {
    let values = args.parameters.values()?;
    if values.is_empty() {
        bail!(
            "need to specify at least one parameter to override via -p otherwise there is nothing to update"
        );
    }
    let (client, namespace) = settings.client().await?;
    let name = args.instance.as_str();
    let old = find(&client, &namespace, name).await?;
    let patch = Patch::merge(&json!({"spec": {"parameters": values}}))?;
    let patched = client
        .namespaced::<Instance>(&namespace)
        .patch(name, &patch)
        .await;
    patched.map_err(|status| anyhow!("updating instance {name} {}", status.message))?;
    if let Some(timeout) = args.wait.timeout() {
        wait::for_instance(&client, (&namespace, name), Some(&old.status), timeout).await?;
    }
    println!("Instance {name} was updated.");
    Ok(())
}

pub(super) async fn uninstall(args: &UninstallArgs, settings: &Settings) -> Result<()> {
    let (client, namespace) = settings.client().await?;
    let name = args.instance.as_str();
    find(&client, &namespace, name).await?;
    let options = DeleteOptions {
        propagation_policy: Some(DeletionPropagation::Background),
        ..DeleteOptions::default()
    };
    client
        .namespaced::<Instance>(&namespace)
        .delete(name, options)
        .await
        .map_err(message)?;
    if let Some(timeout) = args.wait.timeout() {
        wait::for_deletion(&client, (&namespace, name), timeout).await?;
    }
    println!("instance.{API_VERSION}/{name} deleted");
    Ok(())
}

/// The instance of this name, which must exist.
pub(super) async fn find(client: &Client, namespace: &str, name: &str) -> Result<Instance> {
    match client.namespaced::<Instance>(namespace).get(name).await {
        Ok(instance) => Ok(instance.to_owned()?),
        Err(status) if status.is_not_found() => {
            bail!("instance {name} in namespace {namespace} does not exist in the cluster")
        }
        Err(status) => Err(message(status)),
    }
}

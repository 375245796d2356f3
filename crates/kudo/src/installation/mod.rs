//! The engine in the cluster: the objects that `init` installs, and the checks before and after it.
//!
//! `objects` has the manifests, pure functions of the [`Options`]; `checks` what must hold. Names and labels are upstream's,
//! so that an installation of either replaces one of the other by `--upgrade`.
//!
//! Start reading at [`install`].

mod checks;
mod objects;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use setpoint_api::Clock;
use setpoint_api::options::{DeleteOptions, DeletionPropagation};
use setpoint_client::Patch;
use setpoint_kuttl::ObjectClient;

pub use checks::{Findings, before_install, before_upgrade, of_installation};
pub use objects::{Step, steps};

/// The namespace of the engine, which is created; another one must exist.
pub const DEFAULT_NAMESPACE: &str = "kudo-system";
/// The ServiceAccount of the engine, which is created; another one must exist and have the role `cluster-admin`.
pub const DEFAULT_SERVICE_ACCOUNT: &str = "kudo-manager";

/// What is installed.
#[derive(Debug, Clone)]
pub struct Options {
    /// The namespace of the engine.
    pub namespace: String,
    /// The ServiceAccount of the engine.
    pub service_account: String,
    /// The image with this program in its path; without one, only the CRDs are installed.
    pub image: Option<String>,
    /// `Always`, `IfNotPresent` or `Never`.
    pub image_pull_policy: String,
    /// Where the certificate of the webhook comes from.
    pub certificate: CertificateSource,
}

/// Where the certificate of the webhook comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateSource {
    /// cert-manager issues it, and writes its CA to the configuration of the webhook.
    CertManager,
    /// It is issued here, for a year, by a CA whose key is not kept.
    SelfSigned,
}

/// How often a deletion is checked.
const POLL: Duration = Duration::from_secs(1);
/// How long a deletion may take, in polls.
const DELETION_POLLS: usize = 120;

/// Creates the objects of all steps, or patches those that exist. `report` gets the name of each step that is done.
pub async fn install(client: &ObjectClient, steps: &[Step], report: impl Fn(&str)) -> Result<()> {
    for step in steps {
        for object in &step.objects {
            apply(client, object)
                .await
                .with_context(|| step.name.to_owned())?;
        }
        report(step.name);
    }
    Ok(())
}

/// Removes the engine and its webhook, and installs everything again. Instances and their CRDs stay.
pub async fn upgrade(
    client: &ObjectClient,
    (options, steps): (&Options, &[Step]),
    clock: &dyn Clock,
    report: impl Fn(&str),
) -> Result<()> {
    for object in objects::replaced(options) {
        delete(client, &object, clock).await?;
    }
    install(client, steps, report).await
}

async fn apply(client: &ObjectClient, object: &Value) -> Result<()> {
    let outcome = match client.create(object).await {
        Err(status) if status.is_already_exists() => client.patch(object, &Patch::merge(object)?).await,
        outcome => outcome,
    };
    let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
    outcome.with_context(|| format!("cannot install {kind} {name}"))?;
    Ok(())
}

/// Deletes an object with its dependents, and waits until it is gone.
async fn delete(client: &ObjectClient, object: &Value, clock: &dyn Clock) -> Result<()> {
    let options = DeleteOptions {
        propagation_policy: Some(DeletionPropagation::Foreground),
        ..DeleteOptions::default()
    };
    client.delete(object, options).await?;
    for _ in 0..DELETION_POLLS {
        if client.find(object).await?.is_none() {
            return Ok(());
        }
        clock.sleep(POLL).await;
    }
    let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
    bail!("failed to uninstall {kind} {name}: it still exists");
}

/// Waits until the installation is complete and the engine runs, for at most so many seconds.
pub async fn wait(client: &ObjectClient, options: &Options, seconds: u64, clock: &dyn Clock) -> Result<()> {
    for _ in 0..=seconds {
        if of_installation(client, options).await?.errors.is_empty() {
            return Ok(());
        }
        clock.sleep(POLL).await;
    }
    bail!("watch timed out, readiness uncertain")
}

/// An object by its kind, namespace and name.
fn reference([api_version, kind]: [&str; 2], namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
    })
}

#[cfg(test)]
mod tests;

//! Creates the `default` ServiceAccount in every active namespace.

mod plan;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use setpoint_api::{Change, Key};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::service_account::plan::missing;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "serviceaccount-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, _config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = ServiceAccounts {
        namespaces: context.lister()?,
        accounts: context.lister()?,
    };
    Controller::new(NAME, reconciler)
        .reconciles::<Namespace>()
        .watches(
            ServiceAccount::resource().group_resource(),
            namespace_of_deleted_account,
        )
        .run(&context, stop)
        .await
}

/// The reconciler. Its keys are those of namespaces.
#[derive(Debug)]
struct ServiceAccounts {
    namespaces: Lister<Namespace>,
    accounts: Lister<ServiceAccount>,
}

/// The namespace of a deleted ServiceAccount.
fn namespace_of_deleted_account(change: &Change) -> Vec<Key> {
    match change.is_deletion() {
        true => vec![Key::new("", change.key().namespace())],
        false => Vec::new(),
    }
}

impl Reconcile for ServiceAccounts {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(namespace) = self.namespaces.find(key) else {
            return Ok(Next::Done);
        };
        let has = |name: &str| self.accounts.find(&Key::new(key.name(), name)).is_some();
        let missing: Vec<&str> = missing(&namespace, has).collect();
        for name in missing {
            create(client, key.name(), name).await?;
        }
        Ok(Next::Done)
    }
}

async fn create(client: &Client, namespace: &str, name: &str) -> Result<(), Error> {
    let mut account = ServiceAccount::default();
    account.metadata.name = Some(name.to_owned());
    account.metadata.namespace = Some(namespace.to_owned());
    let created = client.namespaced(namespace).create(&account).await;
    match created {
        Err(status) if status.is_already_exists() || status.is_not_found() => Ok(()),
        created => Ok(created.map(drop)?),
    }
}

#[cfg(test)]
mod tests;

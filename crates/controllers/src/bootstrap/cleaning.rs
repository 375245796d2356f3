//! Takes away tokens that are over.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Change, Clock, Key};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Reconcile};
use tokio_util::sync::CancellationToken;

use crate::bootstrap::token::{self, Token};
use crate::{Config, moments};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "token-cleaner-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, _config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Cleaner {
        secrets: context.lister()?,
        client: context.client.clone(),
        clock: context.clock.clone(),
    };
    let tokens = |change: &Change| match token::is_token(change.object()) {
        true => vec![change.key().clone()],
        false => Vec::new(),
    };
    Controller::new(NAME, reconciler)
        .watches(Secret::resource().group_resource(), tokens)
        .workers(1)
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Cleaner {
    secrets: Lister<Secret>,
    client: Client,
    clock: Arc<dyn Clock>,
}

impl Reconcile for Cleaner {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(object) = self.secrets.find(key) else {
            return Ok(Next::Done);
        };
        let token: Token = object.decode()?;
        let Some(end) = token.end() else {
            return Ok(Next::Done);
        };
        if let Some(left) = moments::until(self.clock.now(), end) {
            return Ok(Next::After(left));
        }
        let options = DeleteOptions::of_uid(object.uid());
        let handle = self.client.dynamic(Secret::resource(), key.namespace());
        match handle.delete(key.name(), options).await {
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(Next::Done),
            deleted => Ok(deleted.map(|_| Next::Done)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use setpoint_testkit::{Cluster, Part};

    use super::*;

    #[tokio::test]
    async fn a_token_goes_when_it_is_over_and_others_stay() {
        let (cluster, _parts) = Cluster::with([Part::Controller("token-cleaner")]).await;
        let end = moments::whole_seconds(cluster.clock.now() + jiff::SignedDuration::from_mins(5));
        let secrets = cluster
            .client("test")
            .dynamic(Secret::resource(), token::NAMESPACE);
        let rows = [
            (
                "bootstrap-token-abcdef",
                "bootstrap.kubernetes.io/token",
                json!({"expiration": end, "token-id": "abcdef", "token-secret": "0123456789abcdef"}),
            ),
            (
                "bootstrap-token-fedcba",
                "bootstrap.kubernetes.io/token",
                json!({"token-id": "fedcba", "token-secret": "0123456789abcdef"}),
            ),
            ("other", "Opaque", json!({"expiration": end})),
        ];
        for (name, kind, data) in rows {
            let secret = json!({"metadata": {"name": name, "namespace": token::NAMESPACE}, "type": kind, "stringData": data});
            secrets.create(secret.to_string()).await.unwrap();
        }
        let names = |cluster: &Cluster| -> Vec<String> {
            let secrets = cluster.list::<Secret>().into_iter();
            secrets.filter_map(|secret| secret.metadata.name).collect()
        };
        cluster.advance(Duration::from_secs(60)).await;
        assert_eq!(names(&cluster).len(), 3);
        cluster.until("two", |cluster| names(cluster).len() == 2).await;
        assert_eq!(names(&cluster), ["bootstrap-token-fedcba", "other"]);
    }
}

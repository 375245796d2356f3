//! Deletes expired bootstrap tokens.

use k8s_openapi::api::core::v1::Secret;
use setpoint_api::{Change, Stored};
use setpoint_runtime::{Context, Controller, Error, Object};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::bootstrap::token::{self, Token};
use crate::expiry::Expiry;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "token-cleaner-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, _config: Config, stop: CancellationToken) -> Result<(), Error> {
    let expiration = |object: &Stored| Ok(object.decode::<Token>()?.expiration());
    let tokens = |change: &Change| match token::is_token(change.object()) {
        true => vec![change.key().clone()],
        false => Vec::new(),
    };
    Controller::new(NAME, Expiry::<Secret>::new(&context, expiration)?)
        .watches(Secret::resource().group_resource(), tokens)
        .workers(1)
        .run(&context, stop)
        .await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use setpoint_api::Clock;
    use setpoint_testkit::{Cluster, Component};

    use super::*;
    use crate::api_time;

    #[tokio::test]
    async fn an_expired_token_is_deleted_and_others_stay() {
        let (cluster, _components) = Cluster::with([Component::Controller("token-cleaner")]).await;
        let expiration = api_time::whole_seconds(cluster.clock.now() + jiff::SignedDuration::from_mins(5));
        let secrets = cluster
            .client("test")
            .dynamic(Secret::resource(), token::NAMESPACE);
        let rows = [
            (
                "bootstrap-token-abcdef",
                "bootstrap.kubernetes.io/token",
                json!({"expiration": expiration, "token-id": "abcdef", "token-secret": "0123456789abcdef"}),
            ),
            (
                "bootstrap-token-fedcba",
                "bootstrap.kubernetes.io/token",
                json!({"token-id": "fedcba", "token-secret": "0123456789abcdef"}),
            ),
            ("other", "Opaque", json!({"expiration": expiration})),
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

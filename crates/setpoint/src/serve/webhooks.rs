//! Wiring of webhooks: the client that calls them, whose connections are those of this component.

use std::sync::Arc;

use anyhow::Result;
use setpoint_api::Clock;
use setpoint_apiserver::HttpsWebhookClient;
use setpoint_runtime::Caches;
use tokio_util::sync::CancellationToken;

use super::aggregation;

/// The client of all webhooks, with the Services of these caches.
pub(super) fn client(caches: &dyn Caches, clock: &Arc<dyn Clock>) -> Result<Arc<HttpsWebhookClient>> {
    Ok(HttpsWebhookClient::new(
        aggregation::service_resolver(caches)?,
        clock.clone(),
    ))
}

/// Keeps the connections to webhooks until stopped.
pub(super) async fn run(client: Arc<HttpsWebhookClient>, stop: CancellationToken) -> Result<()> {
    client.run(stop).await;
    Ok(())
}

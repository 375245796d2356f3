//! Wiring of webhooks: the client that calls them, and their metrics.

use std::sync::Arc;

use anyhow::Result;
use setpoint_admission::{AccessChecker, WebhookMetrics, Webhooks};
use setpoint_api::Clock;
use setpoint_apiserver::HttpsWebhookClient;
use setpoint_apiserver::webhook_client::ProxyConfig;
use setpoint_runtime::Caches;
use tokio_util::sync::CancellationToken;

use super::aggregation::service_resolver;

/// The client of webhooks, which only needs the caches to find Services. It uses the proxy of the environment.
pub(super) fn client(caches: &dyn Caches, clock: &Arc<dyn Clock>) -> Result<Arc<HttpsWebhookClient>> {
    let proxies = ProxyConfig::from_env(|name| std::env::var(name).ok()).map_err(anyhow::Error::msg)?;
    Ok(HttpsWebhookClient::new(
        service_resolver(caches)?,
        clock.clone(),
        proxies,
    ))
}

/// What the admission plugins call webhooks with.
pub(super) fn admission(
    client: &Arc<HttpsWebhookClient>,
    clock: &Arc<dyn Clock>,
    access: Arc<dyn AccessChecker>,
) -> Webhooks {
    Webhooks {
        client: client.clone(),
        clock: clock.clone(),
        metrics: Arc::new(WebhookMetrics::default()),
        access: Some(access),
    }
}

/// Keeps connections to webhooks until stopped.
pub(super) async fn run(client: Arc<HttpsWebhookClient>, stop: CancellationToken) -> Result<()> {
    client.run(stop).await;
    Ok(())
}

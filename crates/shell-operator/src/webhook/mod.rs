//! Webhooks of hooks: HTTPS servers for reviews, and their registration in the cluster.
//!
//! There are two servers, as upstream has them: one for admission, one for conversions. Each runs only if a hook has such
//! a binding. A review runs its hook at once, outside of the queues; the file that the hook writes is the response.
//!
//! Start reading at [`spawn_servers`], then [`review`].

mod chain;
mod options;
mod registration;
mod review;

use std::sync::Arc;

use setpoint_runtime::webhook::Webhooks;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::binding_context::AdmissionType;
use crate::config::AdmissionBinding;
use crate::hook::Hook;
use crate::operator::{Error, Shared};

pub(crate) use chain::ConversionChain;
pub(crate) use review::{AdmissionResponse, ConversionReview, HookResponses, Review};

pub use options::{ServerOptions, WebhookOptions};

/// A webhook of an admission binding.
#[derive(Debug, Clone)]
pub(crate) struct AdmissionWebhook {
    pub(crate) hook: Arc<Hook>,
    pub(crate) admission_type: AdmissionType,
    /// The index of the binding among those of its type.
    pub(crate) at: usize,
    /// The path of its reviews.
    pub(crate) path: String,
}

impl AdmissionWebhook {
    pub(crate) fn binding(&self) -> &AdmissionBinding {
        match self.admission_type {
            AdmissionType::Validating => &self.hook.config.validating[self.at],
            AdmissionType::Mutating => &self.hook.config.mutating[self.at],
        }
    }
}

/// Serves the reviews of all hooks and registers the webhooks, as far as there are any.
pub(crate) async fn spawn_servers(
    shared: &Arc<Shared>,
    running: &mut JoinSet<Result<(), Error>>,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let admission = admission_webhooks(&shared.hooks)?;
    if !admission.is_empty() {
        let mut server = Webhooks::new();
        for webhook in &admission {
            let (shared, webhook, stop) = (shared.clone(), webhook.clone(), stop.clone());
            let path = webhook.path.clone();
            server = server.responds(&path, move |body| {
                let (shared, webhook, stop) = (shared.clone(), webhook.clone(), stop.clone());
                async move { shared.admit(&webhook, &body, &stop).await }
            });
        }
        let options = &shared.options.webhooks.admission;
        let authority = serve(shared, options, server, running, stop).await?;
        let (shared, stop) = (shared.clone(), stop.clone());
        running.spawn(async move {
            registration::register_admission(&shared, &admission, &authority, &stop).await
        });
    }
    let chains = ConversionChain::of_hooks(&shared.hooks);
    if !chains.is_empty() {
        let names: Vec<String> = chains.iter().map(|chain| chain.crd_name.clone()).collect();
        let mut server = Webhooks::new();
        for chain in chains {
            let path = format!("/{}", chain.crd_name);
            let (shared, chain, stop) = (shared.clone(), Arc::new(chain), stop.clone());
            server = server.responds(&path, move |body| {
                let (shared, chain, stop) = (shared.clone(), chain.clone(), stop.clone());
                async move { shared.convert(&chain, &body, &stop).await }
            });
        }
        let options = &shared.options.webhooks.conversion;
        let authority = serve(shared, options, server, running, stop).await?;
        let (shared, stop) = (shared.clone(), stop.clone());
        running.spawn(
            async move { registration::register_conversions(&shared, &names, &authority, &stop).await },
        );
    }
    Ok(())
}

/// Starts one server. Returns the CA of its certificate, in PEM.
async fn serve(
    shared: &Arc<Shared>,
    options: &ServerOptions,
    server: Webhooks,
    running: &mut JoinSet<Result<(), Error>>,
    stop: &CancellationToken,
) -> Result<Vec<u8>, Error> {
    let clock = shared.clock().clone();
    let loaded = options.load(&shared.options, clock.now())?;
    let listener = TcpListener::bind(options.listen).await;
    let listener = listener.map_err(|source| Error::Listen {
        address: options.listen.to_string(),
        source,
    })?;
    tracing::info!(address = %options.listen, "Webhook server listens");
    let stop = stop.clone();
    running.spawn(async move {
        let ended = server.run(listener, loaded.certificate, clock, stop).await;
        ended.map_err(|error| Error::Failed(format!("webhook server: {error}")))
    });
    Ok(loaded.authority)
}

/// The webhooks of all admission bindings, each with a path of its own.
fn admission_webhooks(hooks: &[Arc<Hook>]) -> Result<Vec<AdmissionWebhook>, Error> {
    let mut webhooks: Vec<AdmissionWebhook> = Vec::new();
    for admission_type in [AdmissionType::Validating, AdmissionType::Mutating] {
        for hook in hooks {
            let count = match admission_type {
                AdmissionType::Validating => hook.config.validating.len(),
                AdmissionType::Mutating => hook.config.mutating.len(),
            };
            for at in 0..count {
                let mut webhook = AdmissionWebhook {
                    hook: hook.clone(),
                    admission_type,
                    at,
                    path: String::new(),
                };
                webhook.path = free_path(&webhook, &webhooks)?;
                webhooks.push(webhook);
            }
        }
    }
    Ok(webhooks)
}

/// Upstream's path. A mutating webhook with the name of a validating one has another, since one path has one webhook.
fn free_path(webhook: &AdmissionWebhook, others: &[AdmissionWebhook]) -> Result<String, Error> {
    let name = &webhook.binding().options.name;
    let path = format!("/hooks/{}", webhook.binding().webhook_id());
    let mut same = others.iter().filter(|other| other.path == path);
    match same.next() {
        None => Ok(path),
        Some(other) if other.admission_type != webhook.admission_type => Ok(format!("{path}/mutating")),
        Some(other) => Err(Error::Failed(format!(
            "hooks '{}' and '{}' have webhooks of the same name {name:?}",
            other.hook.name, webhook.hook.name
        ))),
    }
}

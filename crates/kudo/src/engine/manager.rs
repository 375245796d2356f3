//! The manager: the controller of Instances and the webhook of their admission, in one process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::{Value, json};
use setpoint_api::{Clock, SystemClock};
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{Http, Patch};
use setpoint_kuttl::ObjectClient;
use setpoint_pki::{PrivateDirectory, WebhookPki};
use setpoint_runtime::webhook::Certificate;
use setpoint_runtime::{Controller, Lister, Manager, for_, owner};
use tokio::net::TcpListener;

use super::controller::InstanceController;
use crate::admission;
use crate::api::{Instance, OperatorVersion};

/// The name of the controller, and of its webhook configuration.
const NAME: &str = "instance-controller";
const CONFIGURATION: &str = "kudo-manager-instance-admission-webhook-config";
const WORKERS: usize = 4;

/// The configuration of a manager.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address of the webhook. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// The directory of the webhook's certificate, `tls.crt` and `tls.key`; registering the webhook is then up to the
    /// user. Without one, a certificate is issued, and the webhook is registered with the API server under the address.
    pub cert_dir: Option<PathBuf>,
}

/// Runs the engine until it is interrupted.
pub async fn run(connection: &Connection, config: Config) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let http = Http::with_clock(connection, clock.clone())?;
    let objects = ObjectClient::new(http.clone(), clock.clone());
    let client = objects.client().clone();
    let listener = TcpListener::bind(config.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", config.listen))?;
    let address = listener.local_addr()?;
    // Its files are read again when they change, so the directory stays as long as the engine runs.
    let issued;
    let cert_dir = match &config.cert_dir {
        Some(directory) => directory,
        None => {
            issued = PrivateDirectory::create("setpoint-kudo")?;
            let pki = WebhookPki::generate(&[address.ip().to_string()], clock.now())?;
            pki.write(issued.path())?;
            register(&objects, address, &pki.authority).await?;
            issued.path()
        }
    };
    let certificate = Certificate::files(cert_dir.join("tls.crt"), cert_dir.join("tls.key"));
    let mut manager = Manager::remote(client.clone(), clock.clone());
    let hooks = admission::webhooks(client);
    manager.add("webhooks", move |context, stop| {
        hooks.run(listener, certificate, context.clock, stop)
    });
    let controller = controller(&manager, objects, http)?;
    manager.add_controller(controller);
    tracing::info!(server = connection.server, webhook = %address, "the engine runs");
    Ok(manager.run_until_interrupted().await?)
}

fn controller(manager: &Manager, objects: ObjectClient, http: Http) -> Result<Controller> {
    let context = manager.context();
    let instances: Lister<Instance> = context.lister()?;
    let reconciler = InstanceController {
        objects,
        http,
        events: context.events.for_component(NAME),
        clock: context.clock.clone(),
    };
    Ok(for_::<Instance>()
        .named(NAME)
        .watches::<Instance>(owner::owners_of::<Instance>)
        .owns::<Deployment>()
        .owns::<StatefulSet>()
        .owns::<Job>()
        .owns::<Pod>()
        .owns::<Service>()
        .watches::<OperatorVersion>(move |change| {
            let key = change.key();
            let uses = |instance: &Instance| {
                instance.operator_version_name() == key.name()
                    && instance.operator_version_namespace() == key.namespace()
            };
            let all = instances.list();
            let using = all.iter().filter(|own| own.shared().is_ok_and(|own| uses(&own)));
            using.map(|own| own.key().clone()).collect()
        })
        .workers(WORKERS)
        .reconciles_with(reconciler))
}

/// Registers the webhook with the API server, under the address of this process.
async fn register(objects: &ObjectClient, address: SocketAddr, authority: &str) -> Result<()> {
    let configuration = webhook_configuration(json!({
        "url": format!("https://{address}{}", admission::PATH),
        "caBundle": STANDARD.encode(authority),
    }));
    let outcome = match objects.create(&configuration).await {
        Err(status) if status.is_already_exists() => {
            objects
                .patch(&configuration, &Patch::merge(&configuration)?)
                .await
        }
        outcome => outcome,
    };
    outcome.context("cannot register the webhook of Instances")?;
    Ok(())
}

/// The registration of the webhook of Instances, which is called by this client configuration.
pub(crate) fn webhook_configuration(client: Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": CONFIGURATION},
        "webhooks": [{
            "name": "instance-admission.kudo.dev",
            "clientConfig": client,
            "rules": [{
                "apiGroups": ["kudo.dev"],
                "apiVersions": ["v1beta1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["instances"],
                "scope": "Namespaced",
            }],
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    })
}

/// The client of a connection, for the commands.
pub fn object_client(connection: &Connection) -> Result<ObjectClient> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    Ok(ObjectClient::new(
        Http::with_clock(connection, clock.clone())?,
        clock,
    ))
}

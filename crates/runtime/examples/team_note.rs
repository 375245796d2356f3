//! A whole controller: each namespace with a `team` label has a ConfigMap `team` that names the team.
//!
//! It runs against any Kubernetes: `cargo run -p setpoint-runtime --example team_note`, with the kubeconfig that kubectl
//! uses, or in a pod with a service account. Several replicas may run; one of them leads.

use std::error::Error as StdError;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use setpoint_api::{Key, SystemClock};
use setpoint_client::kubeconfig::Connection;
use setpoint_runtime::create_or_update::OperationResult;
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Client, Lister, Manager, Recorder, create_or_update, for_, leader, owner};

const NAME: &str = "team-note";

struct TeamNote {
    namespaces: Lister<Namespace>,
    events: Recorder,
}

impl Reconcile for TeamNote {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        // The current state is in the cache; the event does not matter.
        let Some(namespace) = self.namespaces.find(key) else {
            return Ok(Next::Done);
        };
        let Some(team) = namespace.label("team").filter(|_| !namespace.header().deleting) else {
            return Ok(Next::Done);
        };
        let notes = client.namespaced::<ConfigMap>(key.name());
        let mut owned = Ok(());
        let note = create_or_update(&notes, "team", ConfigMap::default(), |note| {
            note.metadata.namespace = Some(key.name().to_owned());
            note.data = Some([("team".to_owned(), team.to_owned())].into());
            owned = owner::set_controller_reference(&namespace, note);
        })
        .await?;
        // A ConfigMap of another owner is left alone; a retry would change nothing.
        owned.map_err(Error::terminal)?;
        if let OperationResult::Created(_) | OperationResult::Updated(_) = note {
            let message = format!("the namespace belongs to {team}");
            self.events.normal(&namespace, "TeamNoted", message);
        }
        Ok(Next::Done)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn StdError>> {
    let client = Client::connect(&Connection::infer()?)?;
    let mut manager = Manager::remote(client, Arc::new(SystemClock::new()));
    let context = manager.context();
    let reconciler = TeamNote {
        namespaces: context.lister()?,
        events: context.events.for_component(NAME),
    };
    let controller = for_::<Namespace>()
        .named(NAME)
        .owns::<ConfigMap>()
        .workers(2)
        .reconciles_with(reconciler);
    manager.add_controller(controller);
    manager.enable_leader_election(leader::Config::new("default", NAME, &identity()));
    Ok(manager.run_until_interrupted().await?)
}

/// Unique for each process.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "local".to_owned());
    format!("{host}_{}", std::process::id())
}

//! A whole controller: each namespace with a `team` label has a ConfigMap `team` that names the team.
//!
//! It runs against any Kubernetes: `cargo run -p setpoint-runtime --example team_note`, with the kubeconfig that kubectl
//! uses, or in a pod with a service account. Several may run at once; one of them works.

use std::error::Error as StdError;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use setpoint_api::{Key, SystemClock};
use setpoint_client::kubeconfig::Connection;
use setpoint_runtime::ensure::Ensured;
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Client, Context, Lister, Manager, create_or_update, for_, leader, owner};

const NAME: &str = "team-note";

struct TeamNote {
    namespaces: Lister<Namespace>,
    context: Context,
}

impl Reconcile for TeamNote {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        // The newest state is in the cache; how it came about does not matter.
        let Some(namespace) = self.namespaces.find(key) else {
            return Ok(Next::Done);
        };
        let Some(team) = namespace.label("team").filter(|_| !namespace.header().deleting) else {
            return Ok(Next::Done);
        };
        let notes = self.context.client.namespaced::<ConfigMap>(key.name());
        let mut owned = Ok(());
        let note = create_or_update(&notes, "team", ConfigMap::default(), |note| {
            note.metadata.namespace = Some(key.name().to_owned());
            note.data = Some([("team".to_owned(), team.to_owned())].into());
            owned = owner::set_controller(&namespace, note);
        })
        .await?;
        // Somebody else's note is left to them; trying again would change nothing.
        owned.map_err(Error::terminal)?;
        if let Ensured::Created(_) | Ensured::Updated(_) = note {
            let events = self.context.events.of(NAME);
            events.normal(
                &namespace,
                "TeamNoted",
                format!("the namespace belongs to {team}"),
            );
        }
        Ok(Next::Done)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn StdError>> {
    let client = Client::connect(&Connection::infer()?)?;
    let mut manager = Manager::remote(client, Arc::new(SystemClock::new()));
    let context = manager.context().clone();
    let reconciler = TeamNote {
        namespaces: context.lister()?,
        context,
    };
    let controller = for_::<Namespace>()
        .named(NAME)
        .owns::<ConfigMap>()
        .workers(2)
        .reconciles_with(reconciler);
    manager.control(controller);
    manager.elect(leader::Config::new("default", NAME, &identity()));
    Ok(manager.run_until_interrupted().await?)
}

/// No two processes may have the same.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "local".to_owned());
    format!("{host}_{}", std::process::id())
}

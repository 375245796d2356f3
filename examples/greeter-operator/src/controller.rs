//! The controller: it compares the desired with the actual state, makes the changes and reports the status.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::{Clock, Key};
use setpoint_runtime::conditions::{self, condition};
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Client, Lister, Manager, Recorder, TypedObject, create_or_update, for_, owner};

use crate::greeter::Greeter;

/// The name in events, in logs and in the manifests.
pub const NAME: &str = "greeter-operator";

/// Adds the controller to a manager. Its RBAC role is generated from what it watches and owns.
pub fn add(manager: &mut Manager) -> Result<(), Error> {
    let context = manager.context();
    let reconciler = GreeterReconciler {
        greeters: context.lister()?,
        clock: context.clock.clone(),
        events: context.events.for_component(NAME),
    };
    let controller = for_::<Greeter>()
        .named(NAME)
        .owns::<ConfigMap>()
        .workers(2)
        .reconciles_with(reconciler);
    manager.add_controller(controller);
    Ok(())
}

struct GreeterReconciler {
    greeters: Lister<Greeter>,
    clock: Arc<dyn Clock>,
    events: Recorder,
}

impl Reconcile for GreeterReconciler {
    /// Gets a key, not an event (level-triggered): the current state counts. Write through the given client: the next call
    /// for the key sees those writes in the caches.
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        // Deleted: the garbage collector deletes what it owns.
        let Some(greeter) = self.greeters.find(key) else {
            return Ok(Next::Done);
        };
        if greeter.header().deleting {
            return Ok(Next::Done);
        }
        self.sync_config_map(client, &greeter).await?;
        self.update_status(client, &greeter).await?;
        Ok(Next::Done)
    }
}

impl GreeterReconciler {
    /// Creates or updates the ConfigMap. Nothing is written if it is up to date.
    async fn sync_config_map(&self, client: &Client, greeter: &TypedObject<Greeter>) -> Result<(), Error> {
        let (key, spec) = (greeter.key(), &greeter.shared()?.spec);
        let maps = client.namespaced::<ConfigMap>(key.namespace());
        let mut owned = Ok(());
        let outcome = create_or_update(&maps, key.name(), ConfigMap::default(), |map| {
            map.metadata.namespace = Some(key.namespace().to_owned());
            map.data = Some([("greeting".to_owned(), spec.greeting.clone())].into());
            owned = owner::set_controller_reference(greeter, map);
        })
        .await?;
        // The ConfigMap has another owner: it is left alone, and a retry would change nothing.
        owned.map_err(Error::terminal)?;
        if outcome.is_change() {
            let message = format!("set the greeting to {:?}", spec.greeting);
            self.events.normal(greeter, "Greeted", message);
        }
        Ok(())
    }

    /// Updates the status, if it has changed.
    async fn update_status(&self, client: &Client, greeter: &TypedObject<Greeter>) -> Result<(), Error> {
        let mut updated = greeter.to_owned()?;
        let mut status = updated.status.clone().unwrap_or_default();
        status.observed_generation = greeter.header().generation;
        let ready = condition("Ready", true, "Greeted", "the ConfigMap has the greeting");
        conditions::set(&mut status.conditions, ready, self.clock.now());
        if updated.status.as_ref() == Some(&status) {
            return Ok(());
        }
        updated.status = Some(status);
        let greeters = client.namespaced::<Greeter>(greeter.key().namespace());
        greeters.update_status(&updated).await?;
        Ok(())
    }
}

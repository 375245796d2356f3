//! The controller: it reads what is there, does what is missing and says how it stands.

use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::Key;
use setpoint_runtime::conditions::{self, condition};
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Context, Lister, Manager, Typed, create_or_update, for_, owner};

use crate::greeter::Greeter;

/// The name in events, in logs and in the manifests.
pub const NAME: &str = "greeter-operator";

/// Adds the controller to a manager. What it watches, owns and may is what its role allows.
pub fn add(manager: &mut Manager) -> Result<(), Error> {
    let context = manager.context().clone();
    let greeters = context.lister()?;
    let controller = for_::<Greeter>()
        .named(NAME)
        .owns::<ConfigMap>()
        .workers(2)
        .reconciles_with(Greeters { greeters, context });
    manager.control(controller);
    Ok(())
}

struct Greeters {
    greeters: Lister<Greeter>,
    context: Context,
}

impl Reconcile for Greeters {
    /// It is told a key and nothing else: what matters is what is there now, however it came about.
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        // One that is gone needs nothing: what it owns goes with it.
        let Some(greeter) = self.greeters.find(key) else {
            return Ok(Next::Done);
        };
        if greeter.header().deleting {
            return Ok(Next::Done);
        }
        self.greet(&greeter).await?;
        self.report(&greeter).await?;
        Ok(Next::Done)
    }
}

impl Greeters {
    /// Sees to it that the ConfigMap says what it should. Nothing is written if it does.
    async fn greet(&self, greeter: &Typed<Greeter>) -> Result<(), Error> {
        let (key, spec) = (greeter.key(), &greeter.shared()?.spec);
        let maps = self.context.client.namespaced::<ConfigMap>(key.namespace());
        let mut owned = Ok(());
        let ensured = create_or_update(&maps, key.name(), ConfigMap::default(), |map| {
            map.metadata.namespace = Some(key.namespace().to_owned());
            map.data = Some([("greeting".to_owned(), spec.greeting.clone())].into());
            owned = owner::set_controller(greeter, map);
        })
        .await?;
        // Somebody else's ConfigMap is left to them; trying again would change nothing.
        owned.map_err(Error::terminal)?;
        if ensured.is_change() {
            let events = self.context.events.of(NAME);
            events.normal(greeter, "Greeted", format!("says {:?}", spec.greeting));
        }
        Ok(())
    }

    /// Writes the status, if it says something new.
    async fn report(&self, greeter: &Typed<Greeter>) -> Result<(), Error> {
        let mut told = greeter.to_owned()?;
        let mut status = told.status.clone().unwrap_or_default();
        status.observed_generation = greeter.header().generation;
        let ready = condition("Ready", true, "Greeted", "the greeting is there");
        conditions::set(&mut status.conditions, ready, self.context.clock.now());
        if told.status.as_ref() == Some(&status) {
            return Ok(());
        }
        told.status = Some(status);
        let greeters = self
            .context
            .client
            .namespaced::<Greeter>(greeter.key().namespace());
        greeters.update_status(&told).await?;
        Ok(())
    }
}

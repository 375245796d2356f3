//! The demo: how many ConfigMaps each controller has after each of three steps.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use setpoint_api::options::{DeleteOptions, ListOptions};
use setpoint_api::{Clock, Status};
use setpoint_client::Object;
use setpoint_runtime::reconcile::Error;
use setpoint_runtime::{Client, Manager, Patch};
use tokio_util::sync::CancellationToken;

use crate::controllers::{self, ALL, DESIRED, LABEL, Trigger, owned_maps};
use crate::lossy::LossyServer;

/// The server, the clock and the namespace of a run.
#[derive(Debug)]
pub struct Demo {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub namespace: String,
    /// The resync interval of [`Trigger::Resync`].
    pub resync: Duration,
}

/// A step, and how many ConfigMaps each controller has after it, in the order of [`ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepResult {
    pub what: &'static str,
    pub remaining: [usize; 3],
}

/// How many are deleted in a step.
const DELETED: usize = 3;
/// Long enough for events to be handled.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// Runs all steps, and deletes all ConfigMaps at the end.
pub async fn run_demo(demo_config: &Demo) -> Result<Vec<StepResult>, Error> {
    demo_config.clear().await?;
    for trigger in ALL {
        for _ in 0..DESIRED {
            controllers::create_map(&demo_config.client, &demo_config.namespace, trigger).await?;
        }
    }
    let lossy = Arc::new(LossyServer::new(demo_config.client.serve().clone()));
    let client = Client::new(lossy.clone(), demo_config.client.user().clone());
    let mut manager = Manager::remote(client, demo_config.clock.clone());
    controllers::add(&mut manager, &demo_config.namespace, demo_config.resync)?;
    let cache = manager.context().cache_of(&ConfigMap::resource())?;
    let stop = CancellationToken::new();
    let results = async {
        cache.synced().await;
        demo_config.clock.sleep(SETTLE_TIME).await;
        let results = demo_config.results(&lossy).await;
        stop.cancel();
        results
    };
    let (ended, results) = tokio::join!(manager.run(stop.clone()), results);
    demo_config.clear().await?;
    ended?;
    Ok(results?)
}

impl Demo {
    async fn results(&self, lossy: &LossyServer) -> Result<Vec<StepResult>, Status> {
        let mut results = Vec::new();
        self.delete_unnoticed(lossy).await?;
        results.push(
            self.measure("3 of 5 are deleted, and the events are lost")
                .await?,
        );
        for trigger in ALL {
            self.touch_one(trigger).await?;
        }
        self.clock.sleep(SETTLE_TIME).await;
        results.push(self.measure("then one of the others is changed").await?);
        self.delete_unnoticed(lossy).await?;
        self.clock.sleep(self.resync + SETTLE_TIME).await;
        results.push(self.measure("3 more are deleted, and no event follows").await?);
        Ok(results)
    }

    async fn measure(&self, what: &'static str) -> Result<StepResult, Status> {
        let mut remaining = [0; 3];
        for (remaining, trigger) in remaining.iter_mut().zip(ALL) {
            *remaining = owned_maps(&self.client, &self.namespace, trigger).await?.len();
        }
        Ok(StepResult { what, remaining })
    }

    /// Deletes some ConfigMaps of each controller and waits until the events are lost.
    async fn delete_unnoticed(&self, lossy: &LossyServer) -> Result<(), Status> {
        let maps = self.client.namespaced::<ConfigMap>(&self.namespace);
        let mut lost = lossy.deletions();
        let mut expected = *lost.borrow();
        lossy.set_lossy(true);
        for trigger in ALL {
            let own = owned_maps(&self.client, &self.namespace, trigger).await?;
            for map in own.iter().take(DELETED) {
                maps.delete(map.key().name(), DeleteOptions::default()).await?;
                expected += 1;
            }
        }
        let all_lost = lost.wait_for(|lost| *lost >= expected).await;
        all_lost.map_err(Status::internal)?;
        lossy.set_lossy(false);
        Ok(())
    }

    /// Changes one ConfigMap of a controller, which has nothing to do with the deleted ones.
    async fn touch_one(&self, trigger: Trigger) -> Result<(), Status> {
        let maps = self.client.namespaced::<ConfigMap>(&self.namespace);
        let touched = Patch::merge(&json!({"data": {"touched": "yes"}}))?;
        for map in owned_maps(&self.client, &self.namespace, trigger)
            .await?
            .iter()
            .take(1)
        {
            maps.patch(map.key().name(), &touched).await?;
        }
        Ok(())
    }

    async fn clear(&self) -> Result<(), Status> {
        let which = ListOptions {
            labels: LABEL.parse().expect("the label selector is valid"),
            ..ListOptions::default()
        };
        let maps = self.client.namespaced::<ConfigMap>(&self.namespace);
        maps.dynamic()
            .delete_collection(DeleteOptions::default(), which)
            .await
    }
}

impl StepResult {
    pub fn remaining(&self, trigger: Trigger) -> usize {
        let at = ALL.iter().position(|own| *own == trigger);
        self.remaining[at.expect("all triggers are in the list")]
    }
}

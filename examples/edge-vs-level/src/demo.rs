//! The story: what each keeper has left after three acts.

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

use crate::keepers::{self, ALL, LABEL, Trigger, WANTED, kept};
use crate::lossy::Lossy;

/// Where it takes place.
#[derive(Debug)]
pub struct Stage {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub namespace: String,
    /// How often the last keeper looks without being told.
    pub resync: Duration,
}

/// An act, and how many each keeper has at its end, in the order of [`ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    pub what: &'static str,
    pub left: [usize; 3],
}

/// How many are deleted in an act.
const DELETED: usize = 3;
/// Long enough for what was heard to be acted on.
const A_MOMENT: Duration = Duration::from_secs(1);

/// Plays all acts and leaves nothing behind.
pub async fn play(stage: &Stage) -> Result<Vec<Act>, Error> {
    stage.clear().await?;
    for whose in ALL {
        for _ in 0..WANTED {
            keepers::make(&stage.client, &stage.namespace, whose).await?;
        }
    }
    let lossy = Arc::new(Lossy::new(stage.client.serve().clone()));
    let client = Client::new(lossy.clone(), stage.client.user().clone());
    let mut manager = Manager::remote(client, stage.clock.clone());
    keepers::add(&mut manager, &stage.namespace, stage.resync)?;
    let cache = manager.context().cache_of(&ConfigMap::resource())?;
    let stop = CancellationToken::new();
    let acts = async {
        cache.synced().await;
        stage.clock.sleep(A_MOMENT).await;
        let acts = stage.acts(&lossy).await;
        stop.cancel();
        acts
    };
    let (ended, acts) = tokio::join!(manager.run(stop.clone()), acts);
    stage.clear().await?;
    ended?;
    Ok(acts?)
}

impl Stage {
    async fn acts(&self, lossy: &Lossy) -> Result<Vec<Act>, Status> {
        let mut acts = Vec::new();
        self.delete_unheard(lossy).await?;
        acts.push(self.act("3 of 5 are deleted, and nobody is told").await?);
        for whose in ALL {
            self.touch(whose).await?;
        }
        self.clock.sleep(A_MOMENT).await;
        acts.push(self.act("then one of the others is touched").await?);
        self.delete_unheard(lossy).await?;
        self.clock.sleep(self.resync + A_MOMENT).await;
        acts.push(self.act("3 more are deleted, and then there is silence").await?);
        Ok(acts)
    }

    async fn act(&self, what: &'static str) -> Result<Act, Status> {
        let mut left = [0; 3];
        for (left, whose) in left.iter_mut().zip(ALL) {
            *left = kept(&self.client, &self.namespace, whose).await?.len();
        }
        Ok(Act { what, left })
    }

    /// Deletes some of each keeper's and waits until the news of it is lost.
    async fn delete_unheard(&self, lossy: &Lossy) -> Result<(), Status> {
        let maps = self.client.namespaced::<ConfigMap>(&self.namespace);
        let mut lost = lossy.deletions();
        let mut expected = *lost.borrow();
        lossy.lose(true);
        for whose in ALL {
            let own = kept(&self.client, &self.namespace, whose).await?;
            for map in own.iter().take(DELETED) {
                maps.delete(map.key().name(), DeleteOptions::default()).await?;
                expected += 1;
            }
        }
        let all_lost = lost.wait_for(|lost| *lost >= expected).await;
        all_lost.map_err(Status::internal)?;
        lossy.lose(false);
        Ok(())
    }

    /// Changes something about one of a keeper's, which has nothing to do with what is missing.
    async fn touch(&self, whose: Trigger) -> Result<(), Status> {
        let maps = self.client.namespaced::<ConfigMap>(&self.namespace);
        let touched = Patch::merge(&json!({"data": {"touched": "yes"}}))?;
        for map in kept(&self.client, &self.namespace, whose).await?.iter().take(1) {
            maps.patch(map.key().name(), &touched).await?;
        }
        Ok(())
    }

    async fn clear(&self) -> Result<(), Status> {
        let which = ListOptions {
            labels: LABEL.parse().expect("the label is fine"),
            ..ListOptions::default()
        };
        let maps = self.client.namespaced::<ConfigMap>(&self.namespace);
        maps.dynamic().delete_all(DeleteOptions::default(), which).await
    }
}

impl Act {
    pub fn left(&self, whose: Trigger) -> usize {
        let at = ALL.iter().position(|own| *own == whose);
        self.left[at.expect("all keepers are in the list")]
    }
}

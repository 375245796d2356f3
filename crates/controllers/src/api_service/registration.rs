//! Tells who serves what behind this server, as soon as that is written. It is one of the API server's own, so it runs
//! whatever controllers are asked for.

use std::collections::BTreeMap;

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use parking_lot::Mutex;
use setpoint_api::Key;
use setpoint_runtime::{Context, Controller, Error, Lister, Next, Reconcile};
use tokio_util::sync::CancellationToken;

use super::behind::{Aggregation, Behind};
use crate::Config;

pub const NAME: &str = "apiservice-registration-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Registrations {
        all: context.lister()?,
        aggregation: config.aggregation,
        behind: Mutex::default(),
    };
    Controller::new(NAME, reconciler)
        .reconciles::<APIService>()
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Registrations {
    all: Lister<APIService>,
    aggregation: Aggregation,
    /// Whoever was told of. It is held while somebody is told, so that the last word is the newest.
    behind: Mutex<BTreeMap<Key, Behind>>,
}

impl Reconcile for Registrations {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let service = self.all.find(key).map(|service| service.shared()).transpose()?;
        let found = service.and_then(|service| Behind::of(&service));
        let mut behind = self.behind.lock();
        let before = match found.clone() {
            Some(one) => behind.insert(key.clone(), one),
            None => behind.remove(key),
        };
        if before != found {
            self.aggregation.tell(behind.values().cloned().collect());
        }
        Ok(Next::Done)
    }
}

//! Registration of remote APIServices: publishes the list of them to the aggregator as soon as one changes. It belongs
//! to the API server, so it runs regardless of `--controllers`.

use std::collections::BTreeMap;

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use parking_lot::Mutex;
use setpoint_api::Key;
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Reconcile};
use tokio_util::sync::CancellationToken;

use super::remote::{AggregatorHooks, RemoteApiService};
use crate::Config;

pub const NAME: &str = "apiservice-registration-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = ApiServiceRegistration {
        all: context.lister()?,
        aggregator: config.aggregator,
        published: Mutex::default(),
    };
    Controller::new(NAME, reconciler)
        .reconciles::<APIService>()
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct ApiServiceRegistration {
    all: Lister<APIService>,
    aggregator: AggregatorHooks,
    /// What was last published. The lock is held while publishing, so that the last list published is the newest.
    published: Mutex<BTreeMap<Key, RemoteApiService>>,
}

impl Reconcile for ApiServiceRegistration {
    async fn reconcile(&self, key: &Key, _: &Client) -> Result<Next, Error> {
        let service = self.all.find(key).map(|service| service.shared()).transpose()?;
        let remote = service.and_then(|service| RemoteApiService::of(&service));
        let mut published = self.published.lock();
        let before = match remote.clone() {
            Some(one) => published.insert(key.clone(), one),
            None => published.remove(key),
        };
        if before != remote {
            self.aggregator.publish(published.values().cloned().collect());
        }
        Ok(Next::Done)
    }
}

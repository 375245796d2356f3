//! The controllers: each maintains [`DESIRED`] ConfigMaps with its own label, and differs only in what triggers it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use setpoint_api::options::ListOptions;
use setpoint_api::{Change, Key, Status};
use setpoint_client::Object;
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Client, Context, Controller, Event, Informer, Manager, TypedObject};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The desired number of ConfigMaps of each controller.
pub const DESIRED: usize = 5;

/// The label of a ConfigMap: its controller.
pub const LABEL: &str = "edge-vs-level";

/// What triggers a controller, and what it decides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Each delete event makes it create one.
    Edge,
    /// Each event makes it read the state.
    Level,
    /// Each event makes it read the state, and so does a periodic resync.
    Resync,
}

pub const ALL: [Trigger; 3] = [Trigger::Edge, Trigger::Level, Trigger::Resync];

/// Adds all controllers to a manager. Their ConfigMaps are in this namespace.
pub fn add(manager: &mut Manager, namespace: &str, resync: Duration) -> Result<(), Error> {
    let context = manager.context().clone();
    // This makes the manager start an informer of ConfigMaps.
    context.lister::<ConfigMap>()?;
    let (edge, own) = (namespace.to_owned(), context.clone());
    manager.add("edge", move |_, stop| run_edge_triggered(own, edge, stop));
    manager.add_controller(level_triggered(Trigger::Level, namespace));
    manager.add_controller(level_triggered(Trigger::Resync, namespace).resync_every(resync));
    Ok(())
}

/// The ConfigMaps of one controller, from the server.
pub async fn owned_maps(
    client: &Client,
    namespace: &str,
    trigger: Trigger,
) -> Result<Vec<TypedObject<ConfigMap>>, Status> {
    let options = ListOptions {
        labels: trigger.selector(),
        ..ListOptions::default()
    };
    Ok(client
        .namespaced::<ConfigMap>(namespace)
        .list(&options)
        .await?
        .items)
}

/// Creates one more ConfigMap of a controller.
pub async fn create_map(client: &Client, namespace: &str, trigger: Trigger) -> Result<(), Status> {
    let map = ConfigMap {
        metadata: ObjectMeta {
            generate_name: Some(format!("{trigger}-")),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(LABEL.to_owned(), trigger.to_string())])),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    client.namespaced(namespace).create(&map).await.map(drop)
}

// === impl Trigger ===

impl Trigger {
    fn selector(self) -> setpoint_api::selector::LabelSelector {
        format!("{LABEL}={self}")
            .parse()
            .expect("the label selector is valid")
    }

    fn selects(self, change: &Change) -> bool {
        change.object().label(LABEL) == Some(self.name())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Edge => "edge",
            Self::Level => "level",
            Self::Resync => "resync",
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Limit of pending deletions. One beyond it is dropped, and never made up for.
const MAX_PENDING_DELETIONS: usize = 100;

/// Edge-triggered: creates one ConfigMap for each delete event, and never reads the state.
async fn run_edge_triggered(
    context: Context,
    namespace: String,
    stop: CancellationToken,
) -> Result<(), Error> {
    let (sender, mut deletions) = mpsc::channel(MAX_PENDING_DELETIONS);
    let informer = Informer::new(context.cache_of(&ConfigMap::resource())?, context.clock.clone());
    let listening = informer.run(
        move |notice| {
            if let Event::Changed(change) = notice
                && change.is_deletion()
                && Trigger::Edge.selects(change)
            {
                let _ = sender.try_send(());
            }
        },
        stop,
    );
    let acting = async {
        while deletions.recv().await.is_some() {
            create_map(&context.client, &namespace, Trigger::Edge).await?;
        }
        Ok(())
    };
    let ((), acted) = tokio::join!(listening, acting);
    acted
}

/// Level-triggered: any event of its ConfigMaps enqueues a key, whose reconcile counts them.
fn level_triggered(trigger: Trigger, namespace: &str) -> Controller {
    let reconciler = LevelReconciler { trigger };
    let key = Key::new(namespace, trigger.name());
    let map = move |change: &Change| match trigger.selects(change) {
        true => vec![key.clone()],
        false => Vec::new(),
    };
    Controller::new(trigger.name(), reconciler).watches(ConfigMap::resource().group_resource(), map)
}

#[derive(Debug)]
struct LevelReconciler {
    trigger: Trigger,
}

impl Reconcile for LevelReconciler {
    /// Reads the state from the server, not from the cache: here the cache is fed by the watch that loses events.
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let there = owned_maps(client, key.namespace(), self.trigger).await?.len();
        for _ in there..DESIRED {
            create_map(client, key.namespace(), self.trigger).await?;
        }
        Ok(Next::Done)
    }
}

//! The keepers: each wants [`WANTED`] ConfigMaps with its own label, and differs only in what makes it act.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use setpoint_api::options::ListOptions;
use setpoint_api::{Change, Key, Status};
use setpoint_client::Object;
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Client, Context, Controller, Informer, Manager, Notice, Typed};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How many ConfigMaps each keeper wants.
pub const WANTED: usize = 5;

/// The label that says whose a ConfigMap is.
pub const LABEL: &str = "edge-vs-level";

/// What makes a keeper act, and by what it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Each deletion it hears of makes it create one.
    Edge,
    /// Each event makes it look at what is there.
    Level,
    /// Each event does, and so does the clock.
    Resync,
}

pub const ALL: [Trigger; 3] = [Trigger::Edge, Trigger::Level, Trigger::Resync];

/// Adds all keepers to a manager. They keep their ConfigMaps in this namespace.
pub fn add(manager: &mut Manager, namespace: &str, resync: Duration) -> Result<(), Error> {
    let context = manager.context().clone();
    // Asking for the cache is what makes the manager keep one.
    context.lister::<ConfigMap>()?;
    let (edge, own) = (namespace.to_owned(), context.clone());
    manager.add("edge", move |_, stop| keep_by_edges(own, edge, stop));
    manager.control(by_state(Trigger::Level, namespace, &context));
    manager.control(by_state(Trigger::Resync, namespace, &context).resync_every(resync));
    Ok(())
}

/// The ConfigMaps of one keeper, as they are on the server.
pub async fn kept(client: &Client, namespace: &str, whose: Trigger) -> Result<Vec<Typed<ConfigMap>>, Status> {
    let options = ListOptions {
        labels: whose.selector(),
        ..ListOptions::default()
    };
    Ok(client
        .namespaced::<ConfigMap>(namespace)
        .list(&options)
        .await?
        .items)
}

/// Makes one more ConfigMap of a keeper.
pub async fn make(client: &Client, namespace: &str, whose: Trigger) -> Result<(), Status> {
    let map = ConfigMap {
        metadata: ObjectMeta {
            generate_name: Some(format!("{whose}-")),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(LABEL.to_owned(), whose.to_string())])),
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
            .expect("the labels of keepers are fine")
    }

    fn is_told_by(self, change: &Change) -> bool {
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

/// What it hears of waits here. Whatever finds no room is one more that nobody makes good.
const HEARD: usize = 100;

/// One that believes what it hears: for each deletion it makes one, and it never looks.
async fn keep_by_edges(context: Context, namespace: String, stop: CancellationToken) -> Result<(), Error> {
    let (heard, mut deletions) = mpsc::channel(HEARD);
    let informer = Informer::new(context.cache_of(&ConfigMap::resource())?, context.clock.clone());
    let listening = informer.run(
        move |notice| {
            if let Notice::Changed(change) = notice
                && change.is_deletion()
                && Trigger::Edge.is_told_by(change)
            {
                let _ = heard.try_send(());
            }
        },
        stop,
    );
    let acting = async {
        while deletions.recv().await.is_some() {
            make(&context.client, &namespace, Trigger::Edge).await?;
        }
        Ok(())
    };
    let ((), acted) = tokio::join!(listening, acting);
    acted
}

/// One that is woken by any event about its ConfigMaps and then counts them.
fn by_state(whose: Trigger, namespace: &str, context: &Context) -> Controller {
    let keeper = Keeper {
        whose,
        client: context.client.clone(),
    };
    let key = Key::new(namespace, whose.name());
    let map = move |change: &Change| match whose.is_told_by(change) {
        true => vec![key.clone()],
        false => Vec::new(),
    };
    Controller::new(whose.name(), keeper).watches(ConfigMap::resource().group_resource(), map)
}

#[derive(Debug)]
struct Keeper {
    whose: Trigger,
    client: Client,
}

impl Reconcile for Keeper {
    /// The state is asked for, not the cache: here the cache is fed by the very watch that loses events.
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let there = kept(&self.client, key.namespace(), self.whose).await?.len();
        for _ in there..WANTED {
            make(&self.client, key.namespace(), self.whose).await?;
        }
        Ok(Next::Done)
    }
}

//! Notes when tokens in secrets are used, and since when that is noted. It is one of the API server's own, so it runs
//! whatever controllers are asked for.
//!
//! Who lets a token in says so by [`Uses::note`]; what is written is a label with the day. The ConfigMap with the first day
//! is what [`super::cleaning`] goes by.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use setpoint_api::{Change, Clock, Key, Stored};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::Config;

/// The name in logs and metrics.
pub const NAME: &str = "legacy-token-tracking-controller";

/// Where it is kept since when uses of tokens are noted.
pub(super) const SYSTEM: &str = "kube-system";
pub(super) const MAP: &str = "kube-apiserver-legacy-service-account-token-tracking";
/// The day on which a token was last used.
pub(super) const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";

/// What is not noted yet. When it is full, a use is not noted; the next one of that token is.
const QUEUE_USES: usize = 128;

/// Tells the controller of uses. Cloning shares it; without a controller nobody listens.
#[derive(Clone, Default)]
pub struct Uses(Arc<Mutex<Option<mpsc::Sender<Task>>>>);

/// What there is to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Task {
    /// To see to it that the first day is known.
    Begin,
    /// To note that the token in this secret was used.
    Note(Key),
}

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Tracker {
        maps: context.lister()?,
        secrets: context.lister()?,
        client: context.client.clone(),
        clock: context.clock.clone(),
    };
    Controller::new(NAME, reconciler)
        .watches(ConfigMap::resource().group_resource(), |change: &Change| {
            let is_it = change.key().namespace() == SYSTEM && change.key().name() == MAP;
            Vec::from_iter(is_it.then_some(Task::Begin))
        })
        // Where there is no map yet, something else that every cluster has must ask for it.
        .watches(Namespace::resource().group_resource(), |change: &Change| {
            let is_first = change.key().name() == SYSTEM && matches!(change, Change::Added(_));
            Vec::from_iter(is_first.then_some(Task::Begin))
        })
        .reads(Secret::resource().group_resource())
        .woken_by(config.token_uses.listen())
        .workers(1)
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Tracker {
    maps: Lister<ConfigMap>,
    secrets: Lister<Secret>,
    client: Client,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Tracking {
    data: HashMap<String, String>,
}

/// The first day of which uses are noted, if the map has one that can be read.
pub(super) fn first_day(map: &Stored) -> Option<Date> {
    let tracking: Tracking = map.decode().ok()?;
    tracking.data.get("since")?.parse().ok()
}

/// The day of a moment, as labels have it.
pub(super) fn day(moment: Timestamp) -> Date {
    moment.to_zoned(TimeZone::UTC).date()
}

impl Reconcile<Task> for Tracker {
    async fn reconcile(&self, task: &Task) -> Result<Next, Error> {
        match task {
            Task::Begin => self.begin().await?,
            Task::Note(secret) => self.note(secret).await?,
        }
        Ok(Next::Done)
    }
}

impl Tracker {
    /// Writes down the first day, unless one that can be read is there.
    async fn begin(&self) -> Result<(), Error> {
        let data = json!({"since": day(self.clock.now()).to_string()});
        let handle = self.client.dynamic(ConfigMap::resource(), SYSTEM);
        let Some(map) = self.maps.find(&Key::new(SYSTEM, MAP)) else {
            let map = json!({"metadata": {"name": MAP, "namespace": SYSTEM}, "data": data});
            return match handle.create(map.to_string()).await {
                Err(status) if status.is_already_exists() => Ok(()),
                created => Ok(created.map(drop)?),
            };
        };
        if first_day(map.stored()).is_some() {
            return Ok(());
        }
        let patch = Patch::merge(&json!({"data": data}))?;
        match handle.patch(MAP, &patch).await {
            Err(status) if status.is_not_found() => Ok(()),
            written => Ok(written.map(drop)?),
        }
    }

    async fn note(&self, key: &Key) -> Result<(), Error> {
        let today = day(self.clock.now()).to_string();
        let Some(secret) = self.secrets.find(key) else {
            return Ok(());
        };
        if secret.label(LAST_USED) == Some(&today) {
            return Ok(());
        }
        let metadata = json!({"uid": secret.uid(), "labels": {LAST_USED: today}});
        let patch = Patch::merge(&json!({"metadata": metadata}))?;
        let handle = self.client.dynamic(Secret::resource(), key.namespace());
        match handle.patch(key.name(), &patch).await {
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            written => Ok(written.map(drop)?),
        }
    }
}

// === impl Uses ===

impl Uses {
    /// The token in this secret is used at this moment. It never waits.
    pub fn note(&self, secret: &Stored, now: Timestamp) {
        if secret.label(LAST_USED) == Some(&day(now).to_string()) {
            return;
        }
        if let Some(listener) = &*self.0.lock() {
            // A full queue is no harm: whoever uses a token uses it again.
            let _ = listener.try_send(Task::Note(secret.key().clone()));
        }
    }

    fn listen(&self) -> mpsc::Receiver<Task> {
        let (listener, uses) = mpsc::channel(QUEUE_USES);
        *self.0.lock() = Some(listener);
        uses
    }
}

impl fmt::Debug for Uses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Uses")
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::Header;
    use setpoint_api::options::DeleteOptions;
    use setpoint_testkit::{Cluster, Part};
    use tokio::task::JoinSet;

    use super::*;

    fn since(cluster: &Cluster) -> Option<String> {
        let maps: Vec<ConfigMap> = cluster.list();
        let is_it = |map: &&ConfigMap| map.metadata.name.as_deref() == Some(MAP);
        let data = maps.iter().find(is_it)?.data.clone();
        data?.remove("since")
    }

    #[tokio::test]
    async fn the_first_day_is_kept_and_written_again_when_it_is_lost() {
        let (cluster, _parts) = Cluster::with([Part::Controller(NAME)]).await;
        let today = day(cluster.clock.now()).to_string();
        let is_noted = |cluster: &Cluster| since(cluster).as_ref() == Some(&today);
        cluster.until("the day", is_noted).await;
        let maps = cluster.client("test").dynamic(ConfigMap::resource(), SYSTEM);
        let write = async |since: &str| {
            let patch = Patch::merge(&json!({"data": {"since": since}})).unwrap();
            maps.patch(MAP, &patch).await.unwrap();
            cluster.wait_until_quiet().await.unwrap();
        };
        write("2020-01-01").await;
        assert_eq!(since(&cluster).as_deref(), Some("2020-01-01"));
        write("long ago").await;
        cluster.until("the day again", is_noted).await;
        maps.delete(MAP, DeleteOptions::default()).await.unwrap();
        cluster.until("the map again", is_noted).await;
    }

    #[tokio::test]
    async fn a_use_is_noted_once_a_day() {
        let cluster = Cluster::start().await;
        let secret = json!({"metadata": {"name": "token", "namespace": "default"}});
        let secrets = cluster.client("test").dynamic(Secret::resource(), "default");
        secrets.create(secret.to_string()).await.unwrap();
        let config = Config::default();
        let uses = config.token_uses.clone();
        let note = |name: &str| {
            let secret = Stored::new(Header::new(Key::new("default", name)), "{}".into(), 1);
            uses.note(&secret, cluster.clock.now());
        };
        // Nobody listens yet.
        note("token");
        let mut running = JoinSet::new();
        running.spawn(run(cluster.context(NAME), config, CancellationToken::new()));
        let used = |cluster: &Cluster| {
            let secret: Secret = cluster.find("token").unwrap();
            secret
                .metadata
                .labels
                .and_then(|mut labels| labels.remove(LAST_USED))
        };
        cluster.until("the map", |cluster| since(cluster).is_some()).await;
        assert_eq!(used(&cluster), None);
        for hours in [0, 24] {
            cluster
                .clock
                .set(cluster.clock.now() + jiff::SignedDuration::from_hours(hours));
            let today = day(cluster.clock.now()).to_string();
            note("token");
            cluster
                .until("a mark", |cluster| used(cluster).as_ref() == Some(&today))
                .await;
            let version = cluster.newest();
            note("token");
            note("gone");
            cluster.settle().await;
            assert_eq!(cluster.newest(), version);
        }
    }
}

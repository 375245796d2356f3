//! Records the last use of legacy service account tokens, and since when that is tracked. It belongs to the API server,
//! so it runs regardless of `--controllers`.
//!
//! The authenticator reports each use with [`TokenUses::note`]; it is written as a label with the date.
//! [`super::legacy_serviceaccount_token_cleaner`] reads the start of the tracking from the ConfigMap.

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

/// The ConfigMap with the start of the tracking: namespace and name.
pub(super) const KUBE_SYSTEM: &str = "kube-system";
pub(super) const TRACKING_MAP: &str = "kube-apiserver-legacy-service-account-token-tracking";
/// The date of the last use of a token.
pub(super) const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";

/// The capacity of the queue of uses. When it is full a use is dropped; the next one of that token is recorded.
const QUEUE_USES: usize = 128;

/// Reports token uses to the controller. Clones share the channel; without a controller uses are dropped.
#[derive(Clone, Default)]
pub struct TokenUses(Arc<Mutex<Option<mpsc::Sender<WorkItem>>>>);

/// The keys of the work queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum WorkItem {
    /// Write the start of the tracking if it is missing.
    EnsureSince,
    /// Record a use of the token in this Secret.
    RecordUse(Key),
}

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Tracker {
        maps: context.lister()?,
        secrets: context.lister()?,
        clock: context.clock.clone(),
    };
    Controller::new(NAME, reconciler)
        .watches(ConfigMap::resource().group_resource(), |change: &Change| {
            let is_it = change.key().namespace() == KUBE_SYSTEM && change.key().name() == TRACKING_MAP;
            Vec::from_iter(is_it.then_some(WorkItem::EnsureSince))
        })
        // Until the ConfigMap exists, only events of another resource that every cluster has can enqueue its key.
        .watches(Namespace::resource().group_resource(), |change: &Change| {
            let is_first = change.key().name() == KUBE_SYSTEM && matches!(change, Change::Added(_));
            Vec::from_iter(is_first.then_some(WorkItem::EnsureSince))
        })
        .reads(Secret::resource().group_resource())
        .watches_channel(config.token_uses.listen())
        .workers(1)
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Tracker {
    maps: Lister<ConfigMap>,
    secrets: Lister<Secret>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TrackingMap {
    data: HashMap<String, String>,
}

/// The start of the tracking, if the ConfigMap has a valid one.
pub(super) fn tracking_start(map: &Stored) -> Option<Date> {
    let tracking: TrackingMap = map.decode().ok()?;
    tracking.data.get("since")?.parse().ok()
}

/// The UTC date of a time.
pub(super) fn day(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

impl Reconcile<WorkItem> for Tracker {
    async fn reconcile(&self, item: &WorkItem, client: &Client) -> Result<Next, Error> {
        match item {
            WorkItem::EnsureSince => self.ensure_since(client).await?,
            WorkItem::RecordUse(secret) => self.note(client, secret).await?,
        }
        Ok(Next::Done)
    }
}

impl Tracker {
    /// Writes the start of the tracking, unless the ConfigMap has a valid one.
    async fn ensure_since(&self, client: &Client) -> Result<(), Error> {
        let data = json!({"since": day(self.clock.now()).to_string()});
        let handle = client.dynamic(ConfigMap::resource(), KUBE_SYSTEM);
        let Some(map) = self.maps.find(&Key::new(KUBE_SYSTEM, TRACKING_MAP)) else {
            let map = json!({"metadata": {"name": TRACKING_MAP, "namespace": KUBE_SYSTEM}, "data": data});
            return match handle.create(map.to_string()).await {
                Err(status) if status.is_already_exists() => Ok(()),
                created => Ok(created.map(drop)?),
            };
        };
        if tracking_start(map.stored()).is_some() {
            return Ok(());
        }
        let patch = Patch::merge(&json!({"data": data}))?;
        match handle.patch(TRACKING_MAP, &patch).await {
            Err(status) if status.is_not_found() => Ok(()),
            written => Ok(written.map(drop)?),
        }
    }

    async fn note(&self, client: &Client, key: &Key) -> Result<(), Error> {
        let today = day(self.clock.now()).to_string();
        let Some(secret) = self.secrets.find(key) else {
            return Ok(());
        };
        if secret.label(LAST_USED) == Some(&today) {
            return Ok(());
        }
        let metadata = json!({"uid": secret.uid(), "labels": {LAST_USED: today}});
        let patch = Patch::merge(&json!({"metadata": metadata}))?;
        let handle = client.dynamic(Secret::resource(), key.namespace());
        match handle.patch(key.name(), &patch).await {
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            written => Ok(written.map(drop)?),
        }
    }
}

// === impl TokenUses ===

impl TokenUses {
    /// Reports a use of the token in this Secret. It never blocks.
    pub fn note(&self, secret: &Stored, now: Timestamp) {
        if secret.label(LAST_USED) == Some(&day(now).to_string()) {
            return;
        }
        if let Some(sender) = &*self.0.lock() {
            // A full queue does no harm: a token in use is used again.
            let _ = sender.try_send(WorkItem::RecordUse(secret.key().clone()));
        }
    }

    fn listen(&self) -> mpsc::Receiver<WorkItem> {
        let (sender, uses) = mpsc::channel(QUEUE_USES);
        *self.0.lock() = Some(sender);
        uses
    }
}

impl fmt::Debug for TokenUses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenUses")
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::Header;
    use setpoint_api::options::DeleteOptions;
    use setpoint_testkit::{Cluster, Component};
    use tokio::task::JoinSet;

    use super::*;

    fn since(cluster: &Cluster) -> Option<String> {
        let maps: Vec<ConfigMap> = cluster.list();
        let is_it = |map: &&ConfigMap| map.metadata.name.as_deref() == Some(TRACKING_MAP);
        let data = maps.iter().find(is_it)?.data.clone();
        data?.remove("since")
    }

    #[tokio::test]
    async fn the_start_of_the_tracking_is_kept_and_rewritten_when_it_is_lost() {
        let (cluster, _components) = Cluster::with([Component::Controller(NAME)]).await;
        let today = day(cluster.clock.now()).to_string();
        let is_noted = |cluster: &Cluster| since(cluster).as_ref() == Some(&today);
        cluster.until("the day", is_noted).await;
        let maps = cluster.client("test").dynamic(ConfigMap::resource(), KUBE_SYSTEM);
        let write = async |since: &str| {
            let patch = Patch::merge(&json!({"data": {"since": since}})).unwrap();
            maps.patch(TRACKING_MAP, &patch).await.unwrap();
            cluster.wait_until_quiet().await.unwrap();
        };
        write("2020-01-01").await;
        assert_eq!(since(&cluster).as_deref(), Some("2020-01-01"));
        write("long ago").await;
        cluster.until("the day again", is_noted).await;
        maps.delete(TRACKING_MAP, DeleteOptions::default()).await.unwrap();
        cluster.until("the map again", is_noted).await;
    }

    #[tokio::test]
    async fn a_use_is_recorded_once_a_day() {
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
        // No controller runs yet.
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
            let version = cluster.revision();
            note("token");
            note("gone");
            cluster.settle().await;
            assert_eq!(cluster.revision(), version);
        }
    }
}

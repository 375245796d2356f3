//! [`LaggingCaches`]: copies of the server's caches that lag behind, as those of a remote process do; a test can pause them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::GroupResource;
use setpoint_cache::{Cache, Caches};
use setpoint_client::Object;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A copy of every cache, each fed by its original. Dropping it ends the copying.
#[derive(Debug)]
pub struct LaggingCaches {
    copies: HashMap<GroupResource, LaggingCache>,
    _copiers: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct LaggingCache {
    cache: Arc<Cache>,
    paused: watch::Sender<bool>,
}

impl LaggingCaches {
    pub(crate) fn of(originals: impl IntoIterator<Item = Arc<Cache>>) -> Arc<Self> {
        let mut copiers = JoinSet::new();
        let mut copies = HashMap::new();
        for original in originals {
            let cache = Arc::new(Cache::new(original.resource().clone()));
            let paused = watch::Sender::new(false);
            copiers.spawn(copy_changes(original.clone(), cache.clone(), paused.subscribe()));
            copies.insert(original.resource().clone(), LaggingCache { cache, paused });
        }
        Arc::new(Self {
            copies,
            _copiers: Mutex::new(copiers),
        })
    }

    /// Pauses the cache of a type: changes do not arrive any more.
    pub fn pause<T: Object>(&self) {
        self.copy::<T>().paused.send_replace(true);
    }

    /// Resumes the cache of a type: pending changes arrive, and later ones.
    pub fn resume<T: Object>(&self) {
        self.copy::<T>().paused.send_replace(false);
    }

    fn copy<T: Object>(&self) -> &LaggingCache {
        &self.copies[&T::resource().group_resource()]
    }
}

impl Caches for LaggingCaches {
    fn cache(&self, resource: &GroupResource) -> Option<Arc<Cache>> {
        Some(self.copies.get(resource)?.cache.clone())
    }
}

async fn copy_changes(original: Arc<Cache>, copy: Arc<Cache>, mut paused: watch::Receiver<bool>) {
    let subscribed = original.subscribe(None);
    let mut changes = subscribed.expect("a subscription from the current state cannot be too old");
    if let Some(initial) = changes.initial.take() {
        copy.replace(initial.iter().cloned().collect(), initial.version);
    }
    while let Ok(batch) = changes.next().await {
        if paused.wait_for(|paused| !paused).await.is_err() {
            return;
        }
        copy.apply(batch.changes().to_vec(), batch.version);
    }
}

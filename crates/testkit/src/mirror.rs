//! Caches that follow the server's from a distance, as those of a remote process do; a test may hold them up.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::GroupResource;
use setpoint_cache::{Cache, Caches};
use setpoint_client::Object;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A copy of all caches, each fed by its original. Dropping it ends the feeding.
#[derive(Debug)]
pub struct Mirror {
    copies: HashMap<GroupResource, Copy>,
    _feeders: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct Copy {
    cache: Arc<Cache>,
    held: watch::Sender<bool>,
}

impl Mirror {
    pub(crate) fn of(originals: impl IntoIterator<Item = Arc<Cache>>) -> Arc<Self> {
        let mut feeders = JoinSet::new();
        let mut copies = HashMap::new();
        for original in originals {
            let cache = Arc::new(Cache::new(original.resource().clone()));
            let held = watch::Sender::new(false);
            feeders.spawn(feed(original.clone(), cache.clone(), held.subscribe()));
            copies.insert(original.resource().clone(), Copy { cache, held });
        }
        Arc::new(Self {
            copies,
            _feeders: Mutex::new(feeders),
        })
    }

    /// From now on, changes of the type do not arrive.
    pub fn hold<T: Object>(&self) {
        self.copy::<T>().held.send_replace(true);
    }

    /// What was held up arrives, and everything after it.
    pub fn release<T: Object>(&self) {
        self.copy::<T>().held.send_replace(false);
    }

    fn copy<T: Object>(&self) -> &Copy {
        &self.copies[&T::resource().group_resource()]
    }
}

impl Caches for Mirror {
    fn cache(&self, resource: &GroupResource) -> Option<Arc<Cache>> {
        Some(self.copies.get(resource)?.cache.clone())
    }
}

async fn feed(original: Arc<Cache>, copy: Arc<Cache>, mut held: watch::Receiver<bool>) {
    let subscribed = original.subscribe(None);
    let mut changes = subscribed.expect("whoever starts with what is there asks for nothing old");
    if let Some(initial) = changes.initial.take() {
        copy.replace(initial.iter().cloned().collect(), initial.version);
    }
    while let Ok(batch) = changes.next().await {
        if held.wait_for(|held| !held).await.is_err() {
            return;
        }
        copy.apply(batch.changes().to_vec(), batch.version);
    }
}

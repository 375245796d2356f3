//! What is served, for the controllers that look after objects of every kind.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use compact_str::CompactString;
use setpoint_api::{GroupResource, Gvk, Gvr, Key};
use tokio::sync::watch;

/// What is served at any time, and when that changes.
#[derive(Clone)]
pub struct Served {
    list: Arc<dyn Fn() -> Resources + Send + Sync>,
    changes: watch::Receiver<u64>,
    /// Tells of changes of what other servers serve, if there can be such servers.
    others: Option<watch::Receiver<u64>>,
}

/// One resource that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub gvk: Gvk,
    pub gvr: Gvr,
    pub namespaced: bool,
}

/// All resources that are served, each with its place in the list.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    all: Vec<Resource>,
    /// Places by group and kind.
    by_kind: HashMap<(CompactString, CompactString), usize>,
    places: HashMap<GroupResource, usize>,
    /// Versions of which nobody knows what they hold, as `group/version`: their servers do not answer.
    unknown: Vec<String>,
}

/// One object of any kind: the place of its resource, and its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Item {
    pub(crate) place: usize,
    pub(crate) key: Key,
}

// === impl Served ===

impl Served {
    /// What `list` lists, whenever `changes` tells of one.
    pub fn new(list: impl Fn() -> Resources + Send + Sync + 'static, changes: watch::Receiver<u64>) -> Self {
        let list = Arc::new(list);
        Self {
            list,
            changes,
            others: None,
        }
    }

    /// The same, where the list also has what others serve; of a change there `others` tells.
    #[must_use]
    pub fn with_others(self, others: watch::Receiver<u64>) -> Self {
        Self {
            others: Some(others),
            ..self
        }
    }

    pub(crate) fn now(&self) -> Resources {
        (self.list)()
    }

    /// Hands on what `take` takes of what is served, each time that changes.
    pub(crate) async fn follow<T>(mut self, to: watch::Sender<T>, take: impl Fn(&Resources) -> T) {
        while self.changed().await {
            to.send_replace(take(&self.now()));
        }
        // Nobody is left to change it.
        std::future::pending().await
    }

    /// Waits for the next change. Whether there was one.
    async fn changed(&mut self) -> bool {
        let changed = match &mut self.others {
            None => self.changes.changed().await,
            Some(others) => tokio::select! {
                changed = self.changes.changed() => changed,
                changed = others.changed() => changed,
            },
        };
        changed.is_ok()
    }
}

/// Nothing, for good.
impl Default for Served {
    fn default() -> Self {
        let (_, changes) = watch::channel(0);
        Self::new(Resources::default, changes)
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").finish_non_exhaustive()
    }
}

// === impl Resources ===

impl Resources {
    pub fn iter(&self) -> impl Iterator<Item = &Resource> {
        self.all.iter()
    }

    /// The same, and some versions of which nobody knows what they hold.
    #[must_use]
    pub fn and_unknown(self, unknown: Vec<String>) -> Self {
        Self { unknown, ..self }
    }

    pub(crate) fn unknown(&self) -> &[String] {
        &self.unknown
    }

    pub(crate) fn at(&self, place: usize) -> &Resource {
        &self.all[place]
    }

    /// The place of a resource.
    pub(crate) fn place(&self, resource: &GroupResource) -> Option<usize> {
        self.places.get(resource).copied()
    }

    /// The same resources in the same places, and these besides. What is served no more keeps its place: whoever asks
    /// for its objects is told that they are gone.
    pub(crate) fn and(mut self, more: &Resources) -> Self {
        for resource in more.iter() {
            match self.place(&resource.gvr.group_resource()) {
                Some(place) => self.all[place] = resource.clone(),
                None => self.push(resource.clone()),
            }
        }
        self
    }

    fn push(&mut self, resource: Resource) {
        let place = self.all.len();
        let kind = (resource.gvk.group.clone(), resource.gvk.kind.clone());
        self.by_kind.insert(kind, place);
        self.places.insert(resource.gvr.group_resource(), place);
        self.all.push(resource);
    }

    /// The place of the kind that an owner reference names, whatever the version.
    pub(crate) fn find_kind(&self, api_version: &str, kind: &str) -> Option<usize> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        self.by_kind.get(&(group.into(), kind.into())).copied()
    }
}

impl FromIterator<Resource> for Resources {
    fn from_iter<I: IntoIterator<Item = Resource>>(resources: I) -> Self {
        let mut all = Self::default();
        resources.into_iter().for_each(|resource| all.push(resource));
        all
    }
}

impl Item {
    pub(crate) fn of(place: usize, object: &setpoint_api::Stored) -> Self {
        let key = object.key().clone();
        Self { place, key }
    }
}

//! State of a monitor: its objects, and the events that are kept back.

use std::collections::BTreeMap;

use setpoint_api::ResourceVersion;

use super::{KubeEvent, ObjectCounts};
use crate::binding_context::{ObjectAndFilterResult, ObjectId};
use crate::config::WatchEvent;

/// The objects of one monitor.
#[derive(Debug)]
pub(super) struct State {
    objects: BTreeMap<ObjectId, FilteredObject>,
    /// Whether the initial list is still being delivered.
    is_initial: bool,
    /// Events since the run with the existing objects began, while the binding is locked; `None` once it is unlocked.
    kept_back: Option<Vec<KubeEvent>>,
    total: ObjectCounts,
    since_last: ObjectCounts,
}

/// An object with what decides whether it has changed.
#[derive(Debug, Clone)]
pub(super) struct FilteredObject {
    pub(super) entry: ObjectAndFilterResult,
    /// Decides if the binding has no jq program.
    pub(super) version: ResourceVersion,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            is_initial: true,
            kept_back: Some(Vec::new()),
            total: ObjectCounts::default(),
            since_last: ObjectCounts::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn is_initial(&self) -> bool {
        self.is_initial
    }

    pub(super) fn end_initial(&mut self) {
        self.is_initial = false;
    }

    pub(super) fn contains(&self, id: &ObjectId) -> bool {
        self.objects.contains_key(id)
    }

    /// Stores the object. Whether it is new, or its filter result or version differs.
    pub(super) fn put(&mut self, new: FilteredObject, event: Option<WatchEvent>) -> bool {
        let count = |counts: &mut ObjectCounts| match event {
            Some(WatchEvent::Added) => counts.added += 1,
            Some(_) => counts.modified += 1,
            None => {}
        };
        count(&mut self.total);
        count(&mut self.since_last);
        let is_equal = |old: &FilteredObject| match &new.entry.filter_result {
            Some(result) => old.entry.filter_result.as_ref() == Some(result),
            None => old.version == new.version,
        };
        let is_changed = !self.objects.get(&new.entry.id).is_some_and(is_equal);
        self.objects.insert(new.entry.id.clone(), new);
        is_changed
    }

    /// Removes an object. Returns it if there was one.
    pub(super) fn remove(&mut self, id: &ObjectId) -> Option<ObjectAndFilterResult> {
        let removed = self.objects.remove(id)?;
        let is_empty = self.objects.is_empty();
        for counts in [&mut self.total, &mut self.since_last] {
            counts.deleted += 1;
            counts.cleaned += u64::from(is_empty);
        }
        Some(removed.entry)
    }

    /// Removes the objects of a namespace that no longer matches, without events.
    pub(super) fn remove_namespace(&mut self, namespace: &str) {
        self.objects.retain(|id, _| id.namespace != namespace);
    }

    /// The objects. Events that are kept back are dropped.
    pub(super) fn synchronize(&mut self) -> Vec<ObjectAndFilterResult> {
        if let Some(kept_back) = &mut self.kept_back {
            kept_back.clear();
        }
        self.snapshot()
    }

    pub(super) fn snapshot(&self) -> Vec<ObjectAndFilterResult> {
        self.objects.values().map(|object| object.entry.clone()).collect()
    }

    /// The event if it is to be delivered now.
    pub(super) fn keep_back(&mut self, event: KubeEvent) -> Option<KubeEvent> {
        match &mut self.kept_back {
            Some(kept_back) => {
                kept_back.push(event);
                None
            }
            None => Some(event),
        }
    }

    pub(super) fn unlock(&mut self) -> Vec<KubeEvent> {
        self.kept_back.take().unwrap_or_default()
    }

    /// The objects that do not exist.
    pub(super) fn missing(&self, exists: impl Fn(&ObjectId) -> bool) -> Vec<ObjectAndFilterResult> {
        let missing = self.objects.iter().filter(|(id, _)| !exists(id));
        missing.map(|(_, object)| object.entry.clone()).collect()
    }

    pub(super) fn counts(&mut self) -> (ObjectCounts, ObjectCounts) {
        let count = self.objects.len() as u64;
        let since_last = std::mem::take(&mut self.since_last);
        (
            ObjectCounts { count, ..self.total },
            ObjectCounts { count, ..since_last },
        )
    }
}

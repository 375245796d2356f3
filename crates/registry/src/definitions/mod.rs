//! Definitions of custom kinds: their names are accepted or not, what they define is served, and what is left of them
//! when they go is removed.
//!
//! [`Defined`] is what the table of kinds holds of them; it follows the cache, batch by batch, in the feed. [`run`] is
//! the loop that writes their status and empties those that are going. This is the one resource that the registry
//! itself acts on, since it changes what the registry is.
//!
//! Start reading at [`Defined`], then `status` for the rules of names.

mod cleanup;
mod status;
mod view;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use setpoint_api::{GroupResource, Stored};
use setpoint_cache::Snapshot;
use setpoint_kinds::Kind;
use setpoint_kinds::apiextensions::custom_resource_definition;
use setpoint_kinds::custom::{self, Rank, Source};

use crate::error::Error;
use crate::registry::Registry;
pub(crate) use view::Definition;

/// The kinds that definitions make, by the definition's name.
#[derive(Debug, Default, Clone)]
pub(crate) struct Defined {
    by_name: HashMap<String, Made>,
}

/// What one definition makes, and from what.
#[derive(Debug, Clone)]
struct Made {
    object: Arc<Stored>,
    from: String,
    source: Arc<Source>,
    kinds: Vec<Arc<dyn Kind>>,
}

/// The resource that holds definitions.
pub(crate) fn resource() -> GroupResource {
    custom_resource_definition::resource().group_resource()
}

impl Defined {
    /// What the definitions make now. What was made before of the same is used again.
    pub(crate) fn of(snapshot: &Snapshot, before: &Defined) -> Self {
        let made = snapshot.iter().filter_map(|object| {
            let name = object.key().name().to_owned();
            let made = Made::of(object, before.by_name.get(&name))?;
            Some((name, made))
        });
        Self {
            by_name: made.collect(),
        }
    }

    /// The kinds, by group, version and name, in the order discovery lists them: the best version first.
    pub(crate) fn kinds(&self) -> Vec<Arc<dyn Kind>> {
        let mut kinds: Vec<Arc<dyn Kind>> = self
            .by_name
            .values()
            .flat_map(|made| made.kinds.iter().cloned())
            .collect();
        kinds.sort_by(|left, right| {
            let order = |kind: &Arc<dyn Kind>| {
                let gvr = &kind.about().gvr;
                let rank = Reverse(Rank::of(&gvr.version));
                (gvr.group.clone(), rank, gvr.resource.clone())
            };
            order(left).cmp(&order(right))
        });
        kinds
    }

    /// Whether both make the same.
    pub(crate) fn is_same(&self, other: &Defined) -> bool {
        self.by_name.len() == other.by_name.len()
            && self.by_name.iter().all(|(name, made)| {
                let other = other.by_name.get(name);
                other.is_some_and(|other| other.from == made.from)
            })
    }
}

impl Made {
    fn of(object: &Arc<Stored>, before: Option<&Made>) -> Option<Self> {
        if let Some(made) = before.filter(|made| Arc::ptr_eq(&made.object, object)) {
            return Some(made.clone());
        }
        let definition = object.view::<Definition>().ok()?;
        if !definition.is_served() {
            return None;
        }
        let from = definition.served_as(object);
        let object = object.clone();
        if let Some(made) = before.filter(|made| made.from == from) {
            made.source.renew(object.json());
            return Some(Self {
                object,
                ..made.clone()
            });
        }
        let source = Arc::new(Source::new(object.json()));
        let kinds = custom::kinds_of(&source, None);
        Some(Self {
            object,
            from,
            source,
            kinds,
        })
    }
}

/// Keeps the status of definitions up to date, and removes what is left of those that go.
pub(crate) async fn run(registry: &Registry) -> Result<(), Error> {
    let Some(resource) = registry.find_resource(&resource()) else {
        // A registry whose table has no definitions serves none.
        return std::future::pending().await;
    };
    let mut subscription = match resource.cache.subscribe(None) {
        Ok(subscription) => subscription,
        Err(_) => return std::future::pending().await,
    };
    loop {
        status::settle(registry, &resource.cache.snapshot()).await;
        let left = cleanup::empty(registry, &resource.cache.snapshot()).await;
        tokio::select! {
            next = subscription.next() => if next.is_err() {
                match resource.cache.subscribe(None) {
                    Ok(again) => subscription = again,
                    Err(_) => continue,
                }
            },
            () = registry.clock.sleep(cleanup::AGAIN), if left => {}
        }
    }
}

//! [`Builder`]: builds a [`Controller`] of one kind.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Change, Key};
use setpoint_client::Object;

use super::{Controller, MapFunc, WatchedResource, object_key};
use crate::owner;
use crate::predicate::Predicate;
use crate::queue::RateLimits;
use crate::rbac::RbacRules;
use crate::reconcile::Reconcile;

/// A controller of objects of type `T`, without its reconciler yet.
///
/// ```text
/// for_::<Foo>()
///     .when(Predicate::generation_changed())
///     .owns::<Deployment>()
///     .watches::<Secret>(|change| foos_that_use(change))
///     .workers(2)
///     .reconciles_with(reconciler)
/// ```
#[derive(Debug)]
pub struct Builder<T> {
    name: &'static str,
    watches: Vec<WatchedResource<Key>>,
    rbac_rules: RbacRules,
    settings: Settings,
    of: PhantomData<fn() -> T>,
}

/// Queue and worker settings of a controller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) workers: usize,
    pub(super) limits: RateLimits,
    pub(super) resync: Option<Duration>,
    pub(super) timeout: Option<Duration>,
}

/// Starts a controller of objects of type `T`: each is reconciled when it changes. Its name is leaked.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
/// use setpoint_api::Key;
/// use setpoint_runtime::{Client, Error, Lister, Next, Reconcile, create_or_update, for_};
/// # use setpoint_testkit::Cluster;
///
/// /// Each namespace with a `team` label has a ConfigMap that names the team.
/// struct TeamNote { namespaces: Lister<Namespace> }
///
/// impl Reconcile for TeamNote {
///     async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
///         let Some(namespace) = self.namespaces.find(key) else { return Ok(Next::Done) };
///         let Some(team) = namespace.label("team") else { return Ok(Next::Done) };
///         let notes = client.namespaced::<ConfigMap>(key.name());
///         create_or_update(&notes, "team", ConfigMap::default(), |note| {
///             note.data = Some([("team".to_owned(), team.to_owned())].into());
///         }).await?;
///         Ok(Next::Done)
///     }
/// }
///
/// # let cluster = Cluster::start().await;
/// # let mut manager = cluster.manager("team-note");
/// let reconciler = TeamNote { namespaces: manager.context().lister()? };
/// manager.add_controller(for_::<Namespace>().named("team-note").owns::<ConfigMap>().reconciles_with(reconciler));
/// # let _running = setpoint_testkit::RunningComponent::of(manager);
/// # let mut namespace = Namespace::default();
/// # namespace.metadata.name = Some("web".to_owned());
/// # namespace.metadata.labels = Some([("team".to_owned(), "blue".to_owned())].into());
/// # cluster.client("me").all().create(&namespace).await?;
/// # cluster.until("a note", |cluster| {
/// #     cluster.list::<ConfigMap>().iter().any(|map| map.metadata.name.as_deref() == Some("team"))
/// # }).await;
/// # Ok(())
/// # }
/// ```
pub fn for_<T: Object>() -> Builder<T> {
    let mut rbac_rules = RbacRules::default();
    rbac_rules.reconcile(T::resource().group_resource());
    Builder {
        name: T::resource().resource.to_string().leak(),
        watches: vec![WatchedResource::of::<T>(Arc::new(object_key))],
        rbac_rules,
        settings: Settings::default(),
        of: PhantomData,
    }
}

impl<T: Object> Builder<T> {
    /// The name in logs, events and metrics; without one, that of the resource.
    #[must_use]
    pub fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Filters the changes of the objects themselves. Of several predicates all must pass.
    #[must_use]
    pub fn when(mut self, predicate: Predicate) -> Self {
        let own = &mut self.watches[0];
        own.map = filtered(own.map.clone(), predicate);
        self
    }

    /// Watches owned objects: a change of a `U` enqueues the `T` that controls it.
    #[must_use]
    pub fn owns<U: Object>(mut self) -> Self {
        self.rbac_rules.own(U::resource().group_resource());
        self.watches::<U>(owner::controllers_of::<T>)
    }

    /// The same for changes that pass a predicate.
    #[must_use]
    pub fn owns_when<U: Object>(mut self, predicate: Predicate) -> Self {
        self.rbac_rules.own(U::resource().group_resource());
        self.watches_when::<U>(predicate, owner::controllers_of::<T>)
    }

    /// Watches owned objects: a change of a `U` enqueues every `T` that owns it, controller or not (controller-runtime's
    /// `MatchEveryOwner`).
    #[must_use]
    pub fn owns_matching_every_owner<U: Object>(mut self) -> Self {
        self.rbac_rules.own(U::resource().group_resource());
        self.watches::<U>(owner::owners_of::<T>)
    }

    /// Watches objects of type `U`: a change enqueues the keys that `map` returns. `map` must not block.
    #[must_use]
    pub fn watches<U: Object>(mut self, map: impl Fn(&Change) -> Vec<Key> + Send + Sync + 'static) -> Self {
        self.rbac_rules.read(U::resource().group_resource());
        self.watches.push(WatchedResource::of::<U>(Arc::new(map)));
        self
    }

    /// The same for changes that pass a predicate.
    #[must_use]
    pub fn watches_when<U: Object>(
        mut self,
        predicate: Predicate,
        map: impl Fn(&Change) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        self.rbac_rules.read(U::resource().group_resource());
        let map = filtered(Arc::new(map), predicate);
        self.watches.push(WatchedResource::of::<U>(map));
        self
    }

    /// Adds verbs on objects of type `U` to the controller's RBAC rules, besides those that follow from its watches.
    #[must_use]
    pub fn rbac<U: Object>(mut self, verbs: impl IntoIterator<Item = impl Into<&'static str>>) -> Self {
        self.rbac_rules.add(U::resource().group_resource(), verbs);
        self
    }

    /// The number of keys reconciled concurrently (controller-runtime's `MaxConcurrentReconciles`).
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = workers;
        self
    }

    /// The rate limits of retries.
    #[must_use]
    pub fn rate_limits(mut self, limits: RateLimits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Enqueues every object again each time this period has passed.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.settings.resync = Some(period);
        self
    }

    /// Cancels a reconcile that takes longer, and retries it.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// Completes the controller with its reconciler.
    pub fn reconciles_with(self, reconciler: impl Reconcile + 'static) -> Controller {
        let mut controller = Controller::new(self.name, reconciler);
        controller.watches = self.watches;
        controller.rbac_rules = self.rbac_rules;
        controller.settings = self.settings;
        controller
    }
}

fn filtered(map: MapFunc<Key>, predicate: Predicate) -> MapFunc<Key> {
    Arc::new(move |change| match predicate.passes(change) {
        true => map(change),
        false => Vec::new(),
    })
}

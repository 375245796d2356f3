//! The short way to a [`Controller`] of one kind.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Change, Key};
use setpoint_client::Object;

use super::{Controller, Map, Watched, itself};
use crate::owner;
use crate::predicate::Predicate;
use crate::queue::Limits;
use crate::reconcile::Reconcile;
use crate::rights::Rights;

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
    watches: Vec<Watched<Key>>,
    rights: Rights,
    settings: Settings,
    of: PhantomData<fn() -> T>,
}

/// What a controller does besides watching.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) workers: usize,
    pub(super) limits: Limits,
    pub(super) resync: Option<Duration>,
    pub(super) timeout: Option<Duration>,
}

/// A controller of objects of type `T`: each is reconciled when it changes. Its name is kept as long as the process runs.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
/// use setpoint_api::Key;
/// use setpoint_runtime::{Context, Error, Lister, Next, Reconcile, create_or_update, for_};
/// # use setpoint_testkit::Cluster;
///
/// /// Each namespace with a `team` label has a ConfigMap that names the team.
/// struct TeamNote { namespaces: Lister<Namespace>, context: Context }
///
/// impl Reconcile for TeamNote {
///     async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
///         let Some(namespace) = self.namespaces.find(key) else { return Ok(Next::Done) };
///         let Some(team) = namespace.label("team") else { return Ok(Next::Done) };
///         let notes = self.context.client.namespaced::<ConfigMap>(key.name());
///         create_or_update(&notes, "team", ConfigMap::default(), |note| {
///             note.data = Some([("team".to_owned(), team.to_owned())].into());
///         }).await?;
///         Ok(Next::Done)
///     }
/// }
///
/// # let cluster = Cluster::start().await;
/// # let mut manager = cluster.manager("team-note");
/// # let context = manager.context().clone();
/// let reconciler = TeamNote { namespaces: context.lister()?, context };
/// manager.control(for_::<Namespace>().named("team-note").owns::<ConfigMap>().reconciles_with(reconciler));
/// # let _running = setpoint_testkit::RunningPart::of(manager);
/// # let mut shop = Namespace::default();
/// # shop.metadata.name = Some("shop".to_owned());
/// # shop.metadata.labels = Some([("team".to_owned(), "blue".to_owned())].into());
/// # cluster.client("me").all().create(&shop).await?;
/// # cluster.until("a note", |cluster| {
/// #     cluster.list::<ConfigMap>().iter().any(|map| map.metadata.name.as_deref() == Some("team"))
/// # }).await;
/// # Ok(())
/// # }
/// ```
pub fn for_<T: Object>() -> Builder<T> {
    let mut rights = Rights::default();
    rights.reconcile(T::resource().group_resource());
    Builder {
        name: T::resource().resource.to_string().leak(),
        watches: vec![Watched::of::<T>(Arc::new(itself))],
        rights,
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

    /// Only such changes of the objects themselves count. Said twice, both must hold.
    #[must_use]
    pub fn when(mut self, predicate: Predicate) -> Self {
        let own = &mut self.watches[0];
        own.map = filtered(own.map.clone(), predicate);
        self
    }

    /// A change of an object of type `U` wakes the `T` that controls it.
    #[must_use]
    pub fn owns<U: Object>(mut self) -> Self {
        self.rights.own(U::resource().group_resource());
        self.watches::<U>(owner::controllers_of::<T>)
    }

    /// The same for such changes only.
    #[must_use]
    pub fn owns_when<U: Object>(mut self, predicate: Predicate) -> Self {
        self.rights.own(U::resource().group_resource());
        self.watches_when::<U>(predicate, owner::controllers_of::<T>)
    }

    /// A change of an object of type `U` wakes every `T` that owns it, controller or not.
    #[must_use]
    pub fn owns_among_others<U: Object>(mut self) -> Self {
        self.rights.own(U::resource().group_resource());
        self.watches::<U>(owner::owners_of::<T>)
    }

    /// A change of an object of type `U` wakes those that `map` makes of it, without blocking.
    #[must_use]
    pub fn watches<U: Object>(mut self, map: impl Fn(&Change) -> Vec<Key> + Send + Sync + 'static) -> Self {
        self.rights.read(U::resource().group_resource());
        self.watches.push(Watched::of::<U>(Arc::new(map)));
        self
    }

    /// The same for such changes only.
    #[must_use]
    pub fn watches_when<U: Object>(
        mut self,
        predicate: Predicate,
        map: impl Fn(&Change) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        self.rights.read(U::resource().group_resource());
        let map = filtered(Arc::new(map), predicate);
        self.watches.push(Watched::of::<U>(map));
        self
    }

    /// The reconciler does these things with objects of type `U` besides what follows from the rest: what its role must
    /// allow.
    #[must_use]
    pub fn may<U: Object>(mut self, verbs: &[&'static str]) -> Self {
        self.rights.add(U::resource().group_resource(), verbs);
        self
    }

    /// How many keys are worked on at a time.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = workers;
        self
    }

    /// How retries are slowed down.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Wakes everything again each time this period has passed, whatever happened.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.settings.resync = Some(period);
        self
    }

    /// A reconcile that takes longer is dropped and tried again.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// The controller, complete.
    pub fn reconciles_with(self, reconciler: impl Reconcile + 'static) -> Controller {
        let mut controller = Controller::new(self.name, reconciler);
        controller.watches = self.watches;
        controller.rights = self.rights;
        controller.settings = self.settings;
        controller
    }
}

fn filtered(map: Map<Key>, predicate: Predicate) -> Map<Key> {
    Arc::new(move |change| match predicate.passes(change) {
        true => map(change),
        false => Vec::new(),
    })
}

//! [`Lister`]: the cached objects of one type. Reading costs no request.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use setpoint_api::selector::LabelSelector;
use setpoint_api::{Key, Stored};
use setpoint_cache::{CONTROLLER_INDEX, Cache};
use setpoint_client::{Object, TypedObject};

/// Reads the cached objects of type `T`. The objects are shared and immutable; change a copy.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let mut web = setpoint_testkit::pod("web").on("n1").label("app", "web").build();
/// # cluster.client("me").namespaced("default").create(&web).await?;
/// # cluster.settle().await;
/// # let context = cluster.context("me");
/// use k8s_openapi::api::core::v1::Pod;
/// use setpoint_api::Key;
/// use setpoint_runtime::Lister;
///
/// let pods: Lister<Pod> = context.lister()?;
/// pods.cache().add_index("node", |pod| pod.field("spec.nodeName").map(Into::into).into_iter().collect());
/// assert_eq!(pods.indexed("node", "n1").len(), 1);
/// assert_eq!(pods.matching("default", &"app=web".parse()?).len(), 1);
///
/// let mut copy = pods.find(&Key::new("default", "web")).unwrap().to_owned()?;
/// copy.metadata.name = Some("other".to_owned());
/// # Ok(())
/// # }
/// ```
///
/// Changing the shared object does not compile:
///
/// ```compile_fail
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use setpoint_runtime::Lister;
/// fn renamed(maps: &Lister<ConfigMap>, key: &setpoint_api::Key) {
///     let map = maps.find(key).unwrap().shared().unwrap();
///     map.metadata.name = Some("other".to_owned());
/// }
/// ```
pub struct Lister<T> {
    cache: Arc<Cache>,
    of: PhantomData<fn() -> T>,
}

impl<T: Object> Lister<T> {
    /// A lister of this cache, which must be that of `T`'s resource.
    pub fn new(cache: Arc<Cache>) -> Self {
        Self {
            cache,
            of: PhantomData,
        }
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The object of this key, if there is one.
    pub fn find(&self, key: &Key) -> Option<TypedObject<T>> {
        self.cache.find(key).map(TypedObject::new)
    }

    /// All objects, by key.
    pub fn list(&self) -> Vec<TypedObject<T>> {
        typed(self.cache.snapshot().iter().cloned())
    }

    /// The objects of one namespace, by key.
    pub fn in_namespace(&self, namespace: &str) -> Vec<TypedObject<T>> {
        typed(self.cache.snapshot().in_namespace(namespace).cloned())
    }

    /// The objects of one namespace whose labels match; the empty namespace is the whole cluster.
    pub fn matching(&self, namespace: &str, selector: &LabelSelector) -> Vec<TypedObject<T>> {
        let snapshot = self.cache.snapshot();
        let objects = snapshot.in_namespace(namespace);
        let matching = objects.filter(|object| selector.matches(|label| object.label(label)));
        typed(matching.cloned())
    }

    /// The objects that the owner of this uid controls.
    pub fn owned_by(&self, uid: &str) -> Vec<TypedObject<T>> {
        self.indexed(CONTROLLER_INDEX, uid)
    }

    /// The objects with this value in an index, which must have been added to the cache.
    pub fn indexed(&self, index: &str, value: &str) -> Vec<TypedObject<T>> {
        typed(self.cache.indexed(index, value).into_iter())
    }
}

impl<T> Clone for Lister<T> {
    fn clone(&self) -> Self {
        Self {
            cache: self.cache.clone(),
            of: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Lister<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lister").field(&self.cache).finish()
    }
}

fn typed<T>(objects: impl Iterator<Item = Arc<Stored>>) -> Vec<TypedObject<T>> {
    objects.map(TypedObject::new).collect()
}

//! [`Object`]: the Rust types of API objects, and [`TypedObject`]: a stored object of such a type.

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use setpoint_api::{Gvk, Gvr, Status, Stored};

/// A type of object that the API serves.
///
/// Every type of k8s-openapi that has metadata is one. With the feature `kube`, so is every type made by
/// `#[derive(CustomResource)]`. Other types implement the trait.
pub trait Object: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The kind of its objects.
    fn gvk() -> Gvk;

    /// The resource under which the type is served.
    fn resource() -> Gvr;

    /// Whether its objects are namespaced.
    fn is_namespaced() -> bool;

    /// The metadata of an object.
    fn meta(&self) -> &ObjectMeta;

    /// The metadata of an object, mutable.
    fn meta_mut(&mut self) -> &mut ObjectMeta;
}

#[cfg(not(feature = "kube"))]
impl<T> Object for T
where
    T: k8s_openapi::Resource<Scope: 'static> + k8s_openapi::Metadata<Ty = ObjectMeta>,
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn gvk() -> Gvk {
        Gvk::new(T::GROUP, T::VERSION, T::KIND)
    }

    fn resource() -> Gvr {
        Gvr::new(T::GROUP, T::VERSION, T::URL_PATH_SEGMENT)
    }

    fn is_namespaced() -> bool {
        TypeId::of::<T::Scope>() != TypeId::of::<k8s_openapi::ClusterResourceScope>()
    }

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.metadata_mut()
    }
}

/// kube counts the types of k8s-openapi among its own, so this covers both.
#[cfg(feature = "kube")]
impl<T> Object for T
where
    T: kube_core::Resource<DynamicType = (), Scope: 'static>,
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn gvk() -> Gvk {
        Gvk::new(&T::group(&()), &T::version(&()), &T::kind(&()))
    }

    fn resource() -> Gvr {
        Gvr::new(&T::group(&()), &T::version(&()), &T::plural(&()))
    }

    fn is_namespaced() -> bool {
        TypeId::of::<T::Scope>() != TypeId::of::<k8s_openapi::ClusterResourceScope>()
    }

    fn meta(&self) -> &ObjectMeta {
        kube_core::Resource::meta(self)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        kube_core::Resource::meta_mut(self)
    }
}

/// A stored object of type `T`, decoded on demand: key, uid, labels and owners are in its header.
pub struct TypedObject<T> {
    stored: Arc<Stored>,
    of: PhantomData<fn() -> T>,
}

// === impl TypedObject ===

impl<T> TypedObject<T> {
    /// The object must be a `T`; else decoding it fails.
    pub fn new(stored: Arc<Stored>) -> Self {
        Self {
            stored,
            of: PhantomData,
        }
    }

    /// The stored object.
    pub fn stored(&self) -> &Arc<Stored> {
        &self.stored
    }

    /// The stored object.
    pub fn into_stored(self) -> Arc<Stored> {
        self.stored
    }
}

impl<T: Object> TypedObject<T> {
    /// A decoded copy, to be changed.
    pub fn to_owned(&self) -> Result<T, Status> {
        let decoded = self.stored.decode();
        decoded.map_err(|error| undecodable(&self.stored, &error))
    }

    /// The decoded object, shared: decoded once for all readers, and cached with the stored object.
    pub fn shared(&self) -> Result<Arc<T>, Status> {
        let decoded = self.stored.view();
        decoded.map_err(|error| undecodable(&self.stored, &error))
    }
}

impl<T> Deref for TypedObject<T> {
    type Target = Stored;

    fn deref(&self) -> &Stored {
        &self.stored
    }
}

impl<T> Clone for TypedObject<T> {
    fn clone(&self) -> Self {
        Self::new(self.stored.clone())
    }
}

impl<T> fmt::Debug for TypedObject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stored.fmt(f)
    }
}

fn undecodable(stored: &Stored, error: &serde_json::Error) -> Status {
    Status::internal(format_args!("cannot decode {:?}: {error}", stored.key()))
}

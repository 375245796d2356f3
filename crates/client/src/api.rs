//! [`Api`]: the verbs on objects of one type.

use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::api::autoscaling::v1::Scale;
use serde::Serialize;
use setpoint_api::options::{DeleteOptions, ListOptions, WatchOptions};
use setpoint_api::{ResourceVersion, Response, Status, Watch};

use crate::dynamic::DynamicApi;
use crate::patch::Patch;
use crate::typed_object::{Object, TypedObject};

/// The objects of type `T`, in one namespace or in the whole cluster.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), setpoint_api::Status> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let client = cluster.client("me");
/// use k8s_openapi::api::apps::v1::Deployment;
/// use serde_json::json;
/// use setpoint_api::options::DeleteOptions;
/// use setpoint_client::Patch;
///
/// let deployments = client.namespaced::<Deployment>("default");
/// deployments.create(&setpoint_testkit::deployment("web").build()).await?;
/// deployments.patch("web", &Patch::merge(&json!({"metadata": {"labels": {"tier": "front"}}}))?).await?;
/// deployments.scale_to("web", 3).await?;
/// let web = deployments.get("web").await?;
/// assert_eq!(web.label("tier"), Some("front"));
/// assert_eq!(web.shared()?.spec.replicas, Some(3));
///
/// // Not a later object of that name.
/// deployments.delete("web", DeleteOptions::with_uid(web.uid())).await?;
/// assert!(deployments.get("web").await.unwrap_err().is_not_found());
/// # Ok(())
/// # }
/// ```
pub struct Api<T> {
    dynamic: DynamicApi,
    of: PhantomData<fn() -> T>,
}

/// Objects of one type at one revision.
#[derive(Debug)]
pub struct ObjectList<T> {
    /// Ordered by key.
    pub items: Vec<TypedObject<T>>,
    /// The resource version of the list.
    pub resource_version: ResourceVersion,
    /// Where the next page starts; absent on the last.
    pub continue_token: Option<String>,
}

impl<T: Object> Api<T> {
    pub(crate) fn new(dynamic: DynamicApi) -> Self {
        Self {
            dynamic,
            of: PhantomData,
        }
    }

    /// The current state of an object, from the server.
    pub async fn get(&self, name: &str) -> Result<TypedObject<T>, Status> {
        self.dynamic.get(name).await.map(TypedObject::new)
    }

    /// The objects that the options select, or the first page of them.
    pub async fn list(&self, options: &ListOptions) -> Result<ObjectList<T>, Status> {
        let list = self.dynamic.list(options).await?;
        Ok(ObjectList {
            items: list.items.into_iter().map(TypedObject::new).collect(),
            resource_version: list.resource_version,
            continue_token: list.continue_token,
        })
    }

    /// A watch of the objects that the options select. To keep up with a resource, use an informer instead.
    pub async fn watch(&self, options: &WatchOptions) -> Result<Watch, Status> {
        self.dynamic.watch(options).await
    }

    /// Creates an object; returns it as the server stored it.
    pub async fn create(&self, object: &T) -> Result<TypedObject<T>, Status> {
        self.dynamic.create(to_json(object)?).await.map(TypedObject::new)
    }

    /// Replaces the object of this name. With a resource version in it, the update fails with a conflict if the object has
    /// changed since.
    pub async fn update(&self, object: &T) -> Result<TypedObject<T>, Status> {
        let json = to_json(object)?;
        self.dynamic
            .update(name_of(object), json)
            .await
            .map(TypedObject::new)
    }

    /// Updates the status subresource.
    pub async fn update_status(&self, object: &T) -> Result<TypedObject<T>, Status> {
        self.update_subresource(object, "status").await
    }

    /// Updates a subresource.
    pub async fn update_subresource(&self, object: &T, sub: &str) -> Result<TypedObject<T>, Status> {
        let json = to_json(object)?;
        let updated = self.dynamic.update_subresource(name_of(object), sub, json).await;
        updated.map(TypedObject::new)
    }

    /// The scale subresource: desired and current replicas.
    pub async fn get_scale(&self, name: &str) -> Result<Scale, Status> {
        self.dynamic.get_scale(name).await
    }

    /// Updates the scale subresource. With a resource version in it, the update fails with a conflict if the object has
    /// changed since.
    pub async fn update_scale(&self, name: &str, scale: &Scale) -> Result<Scale, Status> {
        self.dynamic.update_scale(name, scale).await
    }

    /// Sets the desired replicas, with a patch of the scale subresource.
    pub async fn scale_to(&self, name: &str, replicas: i32) -> Result<(), Status> {
        self.dynamic.scale_to(name, replicas).await
    }

    /// Patches an object; an apply patch creates it if it does not exist.
    pub async fn patch(&self, name: &str, patch: &Patch) -> Result<TypedObject<T>, Status> {
        self.dynamic.patch(name, patch).await.map(TypedObject::new)
    }

    /// Patches the status subresource.
    pub async fn patch_status(&self, name: &str, patch: &Patch) -> Result<TypedObject<T>, Status> {
        self.dynamic
            .patch_subresource(name, "status", patch)
            .await
            .map(TypedObject::new)
    }

    /// Server-side apply of the object, with this field manager.
    pub async fn apply(&self, object: &T, manager: &str) -> Result<TypedObject<T>, Status> {
        self.patch(name_of(object), &Patch::apply(object, manager)?).await
    }

    /// Posts an object to a subresource: a binding, an eviction, a token request.
    pub async fn create_subresource<B: Serialize>(
        &self,
        name: &str,
        sub: &str,
        body: &B,
    ) -> Result<Response, Status> {
        self.dynamic.create_subresource(name, sub, to_json(body)?).await
    }

    /// Deletes an object. Returns it if the server does: because finalizers or a grace period keep it, for example.
    pub async fn delete(&self, name: &str, options: DeleteOptions) -> Result<Option<TypedObject<T>>, Status> {
        let left = self.dynamic.delete(name, options).await?;
        Ok(left.map(TypedObject::new))
    }

    /// Deletes every object that the options select.
    pub async fn delete_collection(&self, options: DeleteOptions, which: ListOptions) -> Result<(), Status> {
        self.dynamic.delete_collection(options, which).await
    }

    /// The same resource without the Rust type.
    pub fn dynamic(&self) -> &DynamicApi {
        &self.dynamic
    }
}

impl<T> Clone for Api<T> {
    fn clone(&self) -> Self {
        Self {
            dynamic: self.dynamic.clone(),
            of: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Api<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.dynamic).finish()
    }
}

fn name_of<T: Object>(object: &T) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

fn to_json(body: &impl Serialize) -> Result<Vec<u8>, Status> {
    setpoint_api::json::to_vec(body)
        .map_err(|error| Status::bad_request(format!("cannot encode the object: {error}")))
}

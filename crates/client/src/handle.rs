//! [`Handle`]: the verbs on objects of one type.

use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::api::autoscaling::v1::Scale;
use serde::Serialize;
use setpoint_api::options::{DeleteOptions, ListOptions, WatchOptions};
use setpoint_api::{ResourceVersion, Response, Status, Watch};

use crate::dynamic::Dynamic;
use crate::patch::Patch;
use crate::typed::{Object, Typed};

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
/// // Not another one of that name.
/// deployments.delete("web", DeleteOptions::of_uid(web.uid())).await?;
/// assert!(deployments.get("web").await.unwrap_err().is_not_found());
/// # Ok(())
/// # }
/// ```
pub struct Handle<T> {
    dynamic: Dynamic,
    of: PhantomData<fn() -> T>,
}

/// Objects of one type at one revision.
#[derive(Debug)]
pub struct Listed<T> {
    /// In the order of their keys.
    pub items: Vec<Typed<T>>,
    /// The revision at which all of them were so.
    pub resource_version: ResourceVersion,
    /// Where the next page starts; absent on the last.
    pub continue_token: Option<String>,
}

impl<T: Object> Handle<T> {
    pub(crate) fn new(dynamic: Dynamic) -> Self {
        Self {
            dynamic,
            of: PhantomData,
        }
    }

    /// The newest state of an object, from the server.
    pub async fn get(&self, name: &str) -> Result<Typed<T>, Status> {
        self.dynamic.get(name).await.map(Typed::new)
    }

    /// The objects that the options select, or the first page of them.
    pub async fn list(&self, options: &ListOptions) -> Result<Listed<T>, Status> {
        let list = self.dynamic.list(options).await?;
        Ok(Listed {
            items: list.items.into_iter().map(Typed::new).collect(),
            resource_version: list.resource_version,
            continue_token: list.continue_token,
        })
    }

    /// Events to come. Who wants to keep up with a resource follows a cache instead.
    pub async fn watch(&self, options: &WatchOptions) -> Result<Watch, Status> {
        self.dynamic.watch(options).await
    }

    /// Makes an object; what the server made of it.
    pub async fn create(&self, object: &T) -> Result<Typed<T>, Status> {
        self.dynamic.create(to_json(object)?).await.map(Typed::new)
    }

    /// Replaces the object of this name. With a resource version in it, only if nobody has changed it since.
    pub async fn update(&self, object: &T) -> Result<Typed<T>, Status> {
        let json = to_json(object)?;
        self.dynamic.update(name_of(object), json).await.map(Typed::new)
    }

    /// Writes the status and nothing else.
    pub async fn update_status(&self, object: &T) -> Result<Typed<T>, Status> {
        self.update_sub(object, "status").await
    }

    /// Writes what the subresource is about and nothing else.
    pub async fn update_sub(&self, object: &T, sub: &str) -> Result<Typed<T>, Status> {
        let json = to_json(object)?;
        let updated = self.dynamic.update_sub(name_of(object), sub, json).await;
        updated.map(Typed::new)
    }

    /// How many there shall be and how many there are, of whatever can be scaled.
    pub async fn scale(&self, name: &str) -> Result<Scale, Status> {
        self.dynamic.scale(name).await
    }

    /// Writes how many there shall be. With a resource version in it, only if nobody has changed the object since.
    pub async fn update_scale(&self, name: &str, scale: &Scale) -> Result<Scale, Status> {
        self.dynamic.update_scale(name, scale).await
    }

    /// Sets how many there shall be, whatever it was before.
    pub async fn scale_to(&self, name: &str, replicas: i32) -> Result<(), Status> {
        self.dynamic.scale_to(name, replicas).await
    }

    /// Changes an object; an apply makes it if it is not there.
    pub async fn patch(&self, name: &str, patch: &Patch) -> Result<Typed<T>, Status> {
        self.dynamic.patch(name, patch).await.map(Typed::new)
    }

    /// Changes the status and nothing else.
    pub async fn patch_status(&self, name: &str, patch: &Patch) -> Result<Typed<T>, Status> {
        self.dynamic
            .patch_sub(name, "status", patch)
            .await
            .map(Typed::new)
    }

    /// Makes the object look like this, as far as this manager is concerned with it, whether it is there or not.
    pub async fn apply(&self, object: &T, manager: &str) -> Result<Typed<T>, Status> {
        self.patch(name_of(object), &Patch::apply(object, manager)?).await
    }

    /// Posts a document to a subresource: a binding, an eviction, a token request.
    pub async fn create_sub<B: Serialize>(
        &self,
        name: &str,
        sub: &str,
        body: &B,
    ) -> Result<Response, Status> {
        self.dynamic.create_sub(name, sub, to_json(body)?).await
    }

    /// Deletes an object; what is left of it, if it does not go at once or the server shows it.
    pub async fn delete(&self, name: &str, options: DeleteOptions) -> Result<Option<Typed<T>>, Status> {
        let left = self.dynamic.delete(name, options).await?;
        Ok(left.map(Typed::new))
    }

    /// Deletes every object that the options select.
    pub async fn delete_all(&self, options: DeleteOptions, which: ListOptions) -> Result<(), Status> {
        self.dynamic.delete_all(options, which).await
    }

    /// The same objects without their type.
    pub fn dynamic(&self) -> &Dynamic {
        &self.dynamic
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self {
            dynamic: self.dynamic.clone(),
            of: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.dynamic).finish()
    }
}

fn name_of<T: Object>(object: &T) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

fn to_json(document: &impl Serialize) -> Result<Vec<u8>, Status> {
    serde_json::to_vec(document)
        .map_err(|error| Status::bad_request(format!("cannot encode the object: {error}")))
}

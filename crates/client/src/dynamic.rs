//! [`DynamicApi`]: the verbs on objects without a Rust type, as JSON in and stored objects out.

use std::sync::Arc;

use bytes::Bytes;
use compact_str::CompactString;
use k8s_openapi::api::autoscaling::v1::Scale;
use setpoint_api::options::{DeleteOptions, GetOptions, ListOptions, WatchOptions};
use setpoint_api::{Body, Gvr, Key, List, Payload, Response, Status, Stored, Target, Verb, Watch};

use crate::client::Client;
use crate::pager::ListPager;
use crate::patch::Patch;

/// The objects of one resource, in one namespace or in the whole cluster.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # cluster.define_custom_kind("notes", "Note").await;
/// # let client = cluster.client("me");
/// use serde_json::{Value, json};
/// use setpoint_api::Gvr;
///
/// let notes = client.dynamic(Gvr::new("example.com", "v1", "notes"), "default");
/// let note = json!({"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "a"}, "text": "hello"});
/// notes.create(note.to_string()).await?;
/// let note: Value = notes.get("a").await?.decode()?;
/// assert_eq!(note["text"], "hello");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DynamicApi {
    client: Client,
    resource: Gvr,
    /// Empty for the whole cluster.
    namespace: CompactString,
}

impl DynamicApi {
    pub(crate) fn new(client: Client, resource: Gvr, namespace: &str) -> Self {
        let namespace = namespace.into();
        Self {
            client,
            resource,
            namespace,
        }
    }

    /// The resource.
    pub fn resource(&self) -> &Gvr {
        &self.resource
    }

    /// The current state of an object, from the server.
    pub async fn get(&self, name: &str) -> Result<Arc<Stored>, Status> {
        let verb = Verb::Get(GetOptions::default());
        object(self.client.call(self.target(name)?, verb).await?)
    }

    /// The objects that the options select, or the first page of them.
    pub async fn list(&self, options: &ListOptions) -> Result<List, Status> {
        let response = self
            .client
            .call(self.collection(), Verb::List(options.clone()))
            .await?;
        match response.body {
            Body::List(list) => Ok(list),
            body => Err(unexpected("a list", &body)),
        }
    }

    /// A watch of the objects that the options select. To keep up with a resource, use an informer instead.
    pub async fn watch(&self, options: &WatchOptions) -> Result<Watch, Status> {
        let response = self
            .client
            .call(self.collection(), Verb::Watch(options.clone()))
            .await?;
        match response.body {
            Body::Watch(watch) => Ok(watch),
            body => Err(unexpected("a watch", &body)),
        }
    }

    /// Creates an object from JSON.
    pub async fn create(&self, json: impl Into<Bytes>) -> Result<Arc<Stored>, Status> {
        let verb = Verb::Create(Payload::json(json), self.client.write_options().clone());
        object(self.client.call(self.collection(), verb).await?)
    }

    /// Replaces an object.
    pub async fn update(&self, name: &str, json: impl Into<Bytes>) -> Result<Arc<Stored>, Status> {
        let verb = Verb::Update(Payload::json(json), self.client.write_options().clone());
        object(self.client.call(self.target(name)?, verb).await?)
    }

    /// All objects that the options select, listed in pages of their limit or of 500.
    pub fn pages(&self, options: ListOptions) -> ListPager {
        ListPager::new(self.clone(), options)
    }

    /// Patches an object; an apply patch creates it if it does not exist.
    pub async fn patch(&self, name: &str, patch: &Patch) -> Result<Arc<Stored>, Status> {
        object(
            self.client
                .call(self.target(name)?, patch.to_verb(self.client.write_options()))
                .await?,
        )
    }

    /// Patches a subresource.
    pub async fn patch_subresource(
        &self,
        name: &str,
        sub: &str,
        patch: &Patch,
    ) -> Result<Arc<Stored>, Status> {
        let target = self.target(name)?.subresource(sub);
        object(
            self.client
                .call(target, patch.to_verb(self.client.write_options()))
                .await?,
        )
    }

    /// A subresource of an object, such as its scale.
    pub async fn get_subresource(&self, name: &str, sub: &str) -> Result<Arc<Stored>, Status> {
        let verb = Verb::Get(GetOptions::default());
        object(
            self.client
                .call(self.target(name)?.subresource(sub), verb)
                .await?,
        )
    }

    /// The scale subresource: desired and current replicas.
    pub async fn get_scale(&self, name: &str) -> Result<Scale, Status> {
        self.call_scale(name, Verb::Get(GetOptions::default())).await
    }

    /// Updates the scale subresource. With a resource version in it, the update fails with a conflict if the object has
    /// changed since.
    pub async fn update_scale(&self, name: &str, scale: &Scale) -> Result<Scale, Status> {
        let json = setpoint_api::json::to_vec(scale)
            .map_err(|error| Status::bad_request(format!("cannot encode the scale: {error}")))?;
        let verb = Verb::Update(Payload::json(json), self.client.write_options().clone());
        self.call_scale(name, verb).await
    }

    /// Sets the desired replicas, with a patch of the scale subresource.
    pub async fn scale_to(&self, name: &str, replicas: i32) -> Result<(), Status> {
        let patch = Patch::merge(&serde_json::json!({"spec": {"replicas": replicas}}))?;
        let verb = patch.to_verb(self.client.write_options());
        self.call_scale(name, verb).await.map(drop)
    }

    /// A Scale is not a stored object: a server in this process returns it as JSON.
    async fn call_scale(&self, name: &str, verb: Verb) -> Result<Scale, Status> {
        let target = self.target(name)?.subresource("scale");
        let scale = match self.client.call(target, verb).await?.body {
            Body::Json(json) => setpoint_api::json::from_slice(&json),
            Body::Object(object) => object.decode(),
            body => return Err(unexpected("a scale", &body)),
        };
        scale.map_err(|error| Status::internal(format_args!("cannot decode the scale of {name}: {error}")))
    }

    /// Deletes an object. Returns it if the server does: because finalizers or a grace period keep it, for example.
    pub async fn delete(&self, name: &str, options: DeleteOptions) -> Result<Option<Arc<Stored>>, Status> {
        let options = self.delete_options(options);
        let response = self
            .client
            .call(self.target(name)?, Verb::Delete(options))
            .await?;
        Ok(response.into_object())
    }

    /// Deletes every object that the options select.
    pub async fn delete_collection(&self, options: DeleteOptions, which: ListOptions) -> Result<(), Status> {
        let verb = Verb::DeleteCollection(self.delete_options(options), which);
        self.client.call(self.collection(), verb).await.map(drop)
    }

    /// Posts an object to a subresource: a binding, an eviction, a token request.
    pub async fn create_subresource(
        &self,
        name: &str,
        sub: &str,
        json: impl Into<Bytes>,
    ) -> Result<Response, Status> {
        let verb = Verb::Create(Payload::json(json), self.client.write_options().clone());
        self.client.call(self.target(name)?.subresource(sub), verb).await
    }

    /// Updates a subresource: status, finalizers.
    pub async fn update_subresource(
        &self,
        name: &str,
        sub: &str,
        json: impl Into<Bytes>,
    ) -> Result<Arc<Stored>, Status> {
        let verb = Verb::Update(Payload::json(json), self.client.write_options().clone());
        object(
            self.client
                .call(self.target(name)?.subresource(sub), verb)
                .await?,
        )
    }

    /// Dry run, if the client has it set.
    fn delete_options(&self, options: DeleteOptions) -> DeleteOptions {
        let dry_run = options.dry_run || self.client.write_options().dry_run;
        DeleteOptions { dry_run, ..options }
    }

    fn collection(&self) -> Target {
        Target::in_namespace(self.resource.clone(), &self.namespace)
    }

    fn target(&self, name: &str) -> Result<Target, Status> {
        if name.is_empty() {
            return Err(Status::bad_request("resource name may not be empty"));
        }
        let key = Key::new(&self.namespace, name);
        Ok(Target::object(self.resource.clone(), &key))
    }
}

fn object(response: Response) -> Result<Arc<Stored>, Status> {
    match response.body {
        Body::Object(object) => Ok(object),
        body => Err(unexpected("an object", &body)),
    }
}

fn unexpected(expected: &str, body: &Body) -> Status {
    Status::internal(format_args!(
        "the server responded with {body:?} instead of {expected}"
    ))
}

//! A resource whose type is not known: the verbs over stored objects and JSON documents.

use std::sync::Arc;

use bytes::Bytes;
use compact_str::CompactString;
use k8s_openapi::api::autoscaling::v1::Scale;
use setpoint_api::options::{DeleteOptions, GetOptions, ListOptions, WatchOptions};
use setpoint_api::{Body, Gvr, Key, List, Payload, Response, Status, Stored, Target, Verb, Watch};

use crate::client::Client;
use crate::pages::Pages;
use crate::patch::Patch;

/// The objects of one resource, in one namespace or in the whole cluster.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # cluster.define("notes", "Note").await;
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
pub struct Dynamic {
    client: Client,
    resource: Gvr,
    /// Empty for the whole cluster.
    namespace: CompactString,
}

impl Dynamic {
    pub(crate) fn new(client: Client, resource: Gvr, namespace: &str) -> Self {
        let namespace = namespace.into();
        Self {
            client,
            resource,
            namespace,
        }
    }

    /// Whose objects these are.
    pub fn resource(&self) -> &Gvr {
        &self.resource
    }

    /// The newest state of an object, from the server.
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

    /// Events to come. Who wants to keep up with a resource follows a cache instead.
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

    /// Makes an object of this document.
    pub async fn create(&self, json: impl Into<Bytes>) -> Result<Arc<Stored>, Status> {
        let verb = Verb::Create(Payload::json(json), self.client.writes().clone());
        object(self.client.call(self.collection(), verb).await?)
    }

    /// Replaces an object by this document.
    pub async fn update(&self, name: &str, json: impl Into<Bytes>) -> Result<Arc<Stored>, Status> {
        let verb = Verb::Update(Payload::json(json), self.client.writes().clone());
        object(self.client.call(self.target(name)?, verb).await?)
    }

    /// Everything that the options select, in pages of their limit or of 500.
    pub fn pages(&self, options: ListOptions) -> Pages {
        Pages::new(self.clone(), options)
    }

    /// Changes an object; an apply makes it if it is not there.
    pub async fn patch(&self, name: &str, patch: &Patch) -> Result<Arc<Stored>, Status> {
        object(
            self.client
                .call(self.target(name)?, patch.to_verb(self.client.writes()))
                .await?,
        )
    }

    /// Changes a part of an object through its subresource.
    pub async fn patch_sub(&self, name: &str, sub: &str, patch: &Patch) -> Result<Arc<Stored>, Status> {
        let target = self.target(name)?.subresource(sub);
        object(
            self.client
                .call(target, patch.to_verb(self.client.writes()))
                .await?,
        )
    }

    /// A part of an object that has a path of its own: its scale, say.
    pub async fn get_sub(&self, name: &str, sub: &str) -> Result<Arc<Stored>, Status> {
        let verb = Verb::Get(GetOptions::default());
        object(
            self.client
                .call(self.target(name)?.subresource(sub), verb)
                .await?,
        )
    }

    /// How many there shall be and how many there are, of whatever can be scaled.
    pub async fn scale(&self, name: &str) -> Result<Scale, Status> {
        self.ask_scale(name, Verb::Get(GetOptions::default())).await
    }

    /// Writes how many there shall be. With a resource version in it, only if nobody has changed the object since.
    pub async fn update_scale(&self, name: &str, scale: &Scale) -> Result<Scale, Status> {
        let json = serde_json::to_vec(scale)
            .map_err(|error| Status::bad_request(format!("cannot encode the scale: {error}")))?;
        let verb = Verb::Update(Payload::json(json), self.client.writes().clone());
        self.ask_scale(name, verb).await
    }

    /// Sets how many there shall be, whatever it was before.
    pub async fn scale_to(&self, name: &str, replicas: i32) -> Result<(), Status> {
        let patch = Patch::merge(&serde_json::json!({"spec": {"replicas": replicas}}))?;
        let verb = patch.to_verb(self.client.writes());
        self.ask_scale(name, verb).await.map(drop)
    }

    /// A scale is no object of its own, so a server in this process has nothing stored to show of it.
    async fn ask_scale(&self, name: &str, verb: Verb) -> Result<Scale, Status> {
        let target = self.target(name)?.subresource("scale");
        let scale = match self.client.call(target, verb).await?.body {
            Body::Document(json) => serde_json::from_slice(&json),
            Body::Object(object) => object.decode(),
            body => return Err(unexpected("a scale", &body)),
        };
        scale.map_err(|error| Status::internal(format_args!("cannot decode the scale of {name}: {error}")))
    }

    /// Deletes an object; what is left of it, if it does not go at once or the server shows it.
    pub async fn delete(&self, name: &str, options: DeleteOptions) -> Result<Option<Arc<Stored>>, Status> {
        let options = self.deletion(options);
        let response = self
            .client
            .call(self.target(name)?, Verb::Delete(options))
            .await?;
        Ok(response.into_object())
    }

    /// Deletes every object that the options select.
    pub async fn delete_all(&self, options: DeleteOptions, which: ListOptions) -> Result<(), Status> {
        let verb = Verb::DeleteCollection(self.deletion(options), which);
        self.client.call(self.collection(), verb).await.map(drop)
    }

    /// Posts a document to a subresource: a binding, an eviction, a token request.
    pub async fn create_sub(
        &self,
        name: &str,
        sub: &str,
        json: impl Into<Bytes>,
    ) -> Result<Response, Status> {
        let verb = Verb::Create(Payload::json(json), self.client.writes().clone());
        self.client.call(self.target(name)?.subresource(sub), verb).await
    }

    /// Replaces a part of an object through its subresource: its status, its finalizers.
    pub async fn update_sub(
        &self,
        name: &str,
        sub: &str,
        json: impl Into<Bytes>,
    ) -> Result<Arc<Stored>, Status> {
        let verb = Verb::Update(Payload::json(json), self.client.writes().clone());
        object(
            self.client
                .call(self.target(name)?.subresource(sub), verb)
                .await?,
        )
    }

    /// A client that only says what would come of it deletes nothing, either.
    fn deletion(&self, options: DeleteOptions) -> DeleteOptions {
        let dry_run = options.dry_run || self.client.writes().dry_run;
        DeleteOptions { dry_run, ..options }
    }

    fn collection(&self) -> Target {
        Target::within(self.resource.clone(), &self.namespace)
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

fn unexpected(wanted: &str, body: &Body) -> Status {
    Status::internal(format_args!(
        "the server answered with {body:?} instead of {wanted}"
    ))
}

//! [`ObjectClient`]: the verbs on objects whose kind is known by their `apiVersion` and `kind` only.

use std::sync::Arc;

use serde_json::Value;
use setpoint_api::options::{DeleteOptions, ListOptions};
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Clock, Gvk, Status, Stored};
use setpoint_client::{ApiResource, Client, DynamicApi, Http, Patch, RestMapper};

/// A client of objects without a Rust type. The resource of an object is found by discovery. Cloning shares its cache.
#[derive(Debug, Clone)]
pub struct ObjectClient {
    client: Client,
    mapper: RestMapper,
}

impl ObjectClient {
    /// A client of a remote server.
    pub fn new(http: Http, clock: Arc<dyn Clock>) -> Self {
        Self {
            client: Client::from_http(http.clone()),
            mapper: RestMapper::new(http, clock),
        }
    }

    /// The same discovery, with requests sent by another client.
    #[must_use]
    pub fn with_client(&self, client: Client) -> Self {
        let mapper = self.mapper.clone();
        Self { client, mapper }
    }

    /// The client of typed objects.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The resource of an object's kind.
    pub async fn resource(&self, object: &Value) -> Result<ApiResource, Status> {
        self.mapper.resource_for(&gvk_of(object)).await
    }

    /// The current state of an object, by its kind, namespace and name.
    pub async fn find(&self, object: &Value) -> Result<Option<Value>, Status> {
        let (api, name) = self.api(object).await?;
        match api.get(name).await {
            Ok(stored) => decode(&stored).map(Some),
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Creates an object.
    pub async fn create(&self, object: &Value) -> Result<Value, Status> {
        let (api, _) = self.api(object).await?;
        decode(&*api.create(object.to_string()).await?)
    }

    /// Patches the object of this kind, namespace and name.
    pub async fn patch(&self, object: &Value, patch: &Patch) -> Result<Value, Status> {
        let (api, name) = self.api(object).await?;
        decode(&*api.patch(name, patch).await?)
    }

    /// Deletes an object. False if it does not exist.
    pub async fn delete(&self, object: &Value, options: DeleteOptions) -> Result<bool, Status> {
        let (api, name) = self.api(object).await?;
        match api.delete(name, options).await {
            Ok(_) => Ok(true),
            Err(status) if status.is_not_found() => Ok(false),
            Err(status) => Err(status),
        }
    }

    /// The objects of a kind in a namespace that have these labels. An empty namespace is the whole cluster.
    pub async fn list(
        &self,
        gvk: &Gvk,
        namespace: &str,
        labels: LabelSelector,
    ) -> Result<Vec<Value>, Status> {
        let resource = self.mapper.resource_for(gvk).await?;
        let namespace = if resource.namespaced { namespace } else { "" };
        let options = ListOptions {
            labels,
            ..ListOptions::default()
        };
        let list = self
            .client
            .dynamic(resource.gvr, namespace)
            .list(&options)
            .await?;
        let mut objects = Vec::new();
        for stored in &list.items {
            let mut object = decode(stored)?;
            object["apiVersion"] = gvk.api_version().as_str().into();
            object["kind"] = gvk.kind.as_str().into();
            objects.push(object);
        }
        Ok(objects)
    }

    async fn api<'o>(&self, object: &'o Value) -> Result<(DynamicApi, &'o str), Status> {
        let resource = self.resource(object).await?;
        let metadata = &object["metadata"];
        let namespace = match resource.namespaced {
            true => metadata["namespace"].as_str().unwrap_or("default"),
            false => "",
        };
        let name = metadata["name"].as_str().unwrap_or_default();
        Ok((self.client.dynamic(resource.gvr, namespace), name))
    }
}

/// The kind of an object.
pub fn gvk_of(object: &Value) -> Gvk {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Gvk::new(group, version, object["kind"].as_str().unwrap_or_default())
}

fn decode(stored: &Stored) -> Result<Value, Status> {
    let decoded = stored.decode();
    decoded.map_err(|error| Status::internal(format_args!("cannot decode {}: {error}", stored.key())))
}

//! API objects that volumes and environments refer to, read through the client with a short cache.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1;
use parking_lot::Mutex;
use serde::Deserialize;
use setpoint_api::options::ListOptions;
use setpoint_api::{Clock, Status, Stored};
use setpoint_client::Client;

use crate::container_config::{EnvSources, ServiceView, SourceError, identity};

/// How long an object that was read is used again, so that many pods that start together read it once.
const CACHE_TIME: Duration = Duration::from_secs(1);

/// The first code of errors that leave open whether an object exists, that of a server that cannot be reached among them.
const SERVER_ERROR: u16 = 500;

/// How many objects are kept.
const CACHE_OBJECTS: usize = 512;

/// Reads objects.
#[derive(Debug)]
pub(super) struct ObjectReader {
    pub(super) client: Client,
    clock: Arc<dyn Clock>,
    cache: Mutex<HashMap<CacheKey, (Timestamp, Arc<Stored>)>>,
    /// The Services of all namespaces as they were last listed; `None` before.
    services: Mutex<Option<Arc<[ServiceView]>>>,
}

/// The resource, the namespace and the name of an object.
type CacheKey = (&'static str, String, String);

/// The data of a ConfigMap.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ConfigMapData {
    pub(super) data: BTreeMap<String, String>,
    pub(super) binary_data: BTreeMap<String, ByteString>,
}

/// The data of a Secret.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SecretData {
    pub(super) data: BTreeMap<String, ByteString>,
}

impl ObjectReader {
    pub(super) fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self {
            client,
            clock,
            cache: Mutex::default(),
            services: Mutex::default(),
        }
    }

    /// The data of a ConfigMap; of one that is absent and optional it is empty.
    pub(super) async fn config_map(
        &self,
        namespace: &str,
        name: &str,
        optional: bool,
    ) -> Result<ConfigMapData, String> {
        match self.read_config_map(namespace, name).await {
            Err(status) if status.is_not_found() && optional => Ok(ConfigMapData::default()),
            read => decode(read),
        }
    }

    /// The data of a Secret; of one that is absent and optional it is empty.
    pub(super) async fn secret(
        &self,
        namespace: &str,
        name: &str,
        optional: bool,
    ) -> Result<SecretData, String> {
        match self.read_secret(namespace, name).await {
            Err(status) if status.is_not_found() && optional => Ok(SecretData::default()),
            read => decode(read),
        }
    }

    /// The objects that the environment of a container refers to.
    pub(super) async fn env_sources(&self, pod: &v1::Pod, container: &v1::Container) -> EnvSources {
        let [_, namespace, _] = identity(pod);
        let mut sources = EnvSources::default();
        let from = container.env_from.iter().flatten();
        let values = container
            .env
            .iter()
            .flatten()
            .filter_map(|variable| variable.value_from.as_ref());
        let (mut config_maps, mut secrets) = (Vec::new(), Vec::new());
        for source in from {
            config_maps.extend(source.config_map_ref.as_ref().map(|one| one.name.clone()));
            secrets.extend(source.secret_ref.as_ref().map(|one| one.name.clone()));
        }
        for source in values {
            config_maps.extend(source.config_map_key_ref.as_ref().map(|one| one.name.clone()));
            secrets.extend(source.secret_key_ref.as_ref().map(|one| one.name.clone()));
        }
        for name in config_maps {
            let read = self.read_config_map(namespace, &name).await;
            let data = source::<ConfigMapData>(read).map(|one| one.data);
            sources.config_maps.insert(name, data);
        }
        for name in secrets {
            let read = self.read_secret(namespace, &name).await;
            let text = |bytes: ByteString| String::from_utf8_lossy(&bytes.0).into_owned();
            let data = source::<SecretData>(read).map(|one| {
                one.data
                    .into_iter()
                    .map(|(key, value)| (key, text(value)))
                    .collect()
            });
            sources.secrets.insert(name, data);
        }
        sources.services = self.services(namespace).await;
        sources
    }

    /// The Services that a pod of the namespace sees in its environment. Where they cannot be read, they are those that were
    /// read last; `None` if there was no such time.
    async fn services(&self, namespace: &str) -> Option<Vec<ServiceView>> {
        let services = self.client.all::<v1::Service>();
        match services.dynamic().list(&ListOptions::default()).await {
            Ok(listed) => {
                let stored = listed.items.iter();
                let views = stored.filter_map(|stored| stored.decode::<ServiceView>().ok());
                *self.services.lock() = Some(views.collect());
            }
            Err(status) => tracing::warn!(%status, "cannot list Services for the environment of a container"),
        }
        let known = self.services.lock().clone()?;
        let seen = known.iter().filter(|service| service.is_seen_from(namespace));
        Some(seen.cloned().collect())
    }

    async fn read_config_map(&self, namespace: &str, name: &str) -> Result<Arc<Stored>, Status> {
        let read = self.client.namespaced::<v1::ConfigMap>(namespace);
        let key = ("configmaps", namespace.to_owned(), name.to_owned());
        self.cached(key, read.dynamic().get(name)).await
    }

    pub(super) async fn read_secret(&self, namespace: &str, name: &str) -> Result<Arc<Stored>, Status> {
        let read = self.client.namespaced::<v1::Secret>(namespace);
        let key = ("secrets", namespace.to_owned(), name.to_owned());
        self.cached(key, read.dynamic().get(name)).await
    }

    /// A ServiceAccount.
    pub(super) async fn read_account(&self, namespace: &str, name: &str) -> Result<Arc<Stored>, Status> {
        let read = self.client.namespaced::<v1::ServiceAccount>(namespace);
        let key = ("serviceaccounts", namespace.to_owned(), name.to_owned());
        self.cached(key, read.dynamic().get(name)).await
    }

    /// A PersistentVolumeClaim.
    pub(super) async fn read_claim(&self, namespace: &str, name: &str) -> Result<Arc<Stored>, Status> {
        let read = self.client.namespaced::<v1::PersistentVolumeClaim>(namespace);
        let key = ("persistentvolumeclaims", namespace.to_owned(), name.to_owned());
        self.cached(key, read.dynamic().get(name)).await
    }

    /// A PersistentVolume.
    pub(super) async fn read_volume(&self, name: &str) -> Result<Arc<Stored>, Status> {
        let read = self.client.all::<v1::PersistentVolume>();
        let key = ("persistentvolumes", String::new(), name.to_owned());
        self.cached(key, read.dynamic().get(name)).await
    }

    /// A Node.
    pub(super) async fn read_node(&self, name: &str) -> Result<Arc<Stored>, Status> {
        let read = self.client.all::<v1::Node>();
        let key = ("nodes", String::new(), name.to_owned());
        self.cached(key, read.dynamic().get(name)).await
    }

    async fn cached(
        &self,
        key: CacheKey,
        read: impl Future<Output = Result<Arc<Stored>, Status>>,
    ) -> Result<Arc<Stored>, Status> {
        let now = self.clock.now();
        let is_fresh = |time: Timestamp| now.duration_since(time).unsigned_abs() < CACHE_TIME;
        let known = self.cache.lock().get(&key).cloned();
        if let Some((time, stored)) = &known
            && is_fresh(*time)
        {
            return Ok(stored.clone());
        }
        let stored = match (read.await, known) {
            (Ok(stored), _) => stored,
            // Containers are restarted while the API server is down.
            (Err(status), Some((_, known))) if status.code >= SERVER_ERROR => return Ok(known),
            (Err(status), _) => return Err(status),
        };
        let mut cache = self.cache.lock();
        if cache.len() >= CACHE_OBJECTS {
            cache.retain(|_, (time, _)| is_fresh(*time));
        }
        cache.insert(key, (now, stored.clone()));
        Ok(stored)
    }
}

pub(super) fn decode<T: for<'de> Deserialize<'de>>(read: Result<Arc<Stored>, Status>) -> Result<T, String> {
    let stored = read.map_err(|status| status.message.to_string())?;
    stored.decode().map_err(|error| error.to_string())
}

fn source<T: for<'de> Deserialize<'de>>(read: Result<Arc<Stored>, Status>) -> Result<T, SourceError> {
    let is_absent = read.as_ref().is_err_and(Status::is_not_found);
    decode(read).map_err(|message| SourceError { is_absent, message })
}

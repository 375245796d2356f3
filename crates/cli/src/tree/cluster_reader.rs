//! Requests to the API server: discovery, metadata lists, reads of full objects.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use anyhow::Result;
use jiff::Timestamp;
use setpoint_api::options::ListOptions;
use setpoint_api::{Clock, GroupResource, Gvr, Status, Stored, SystemClock, User};
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{ApiResource, Client, Http, RestMapper};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::owner_tree::Item;

/// Clients of the API server: one receives full objects, one their metadata (PartialObjectMetadata).
#[derive(Debug)]
pub(super) struct ClusterReader {
    objects: Client,
    pub(super) metadata: Client,
    mapper: RestMapper,
    pub(super) clock: Arc<dyn Clock>,
}

/// The root object of the tree.
#[derive(Debug)]
pub(super) struct TreeRoot {
    pub(super) uid: String,
    /// The namespace of its dependents; empty for all namespaces.
    pub(super) namespace: String,
}

/// The metadata of all objects, and the resources that could not be listed.
#[derive(Debug, Default)]
pub(super) struct ListedObjects {
    pub(super) items: Vec<Item>,
    /// The resources that could not be listed, by the reason of the Status.
    problems: BTreeMap<String, BTreeSet<GroupResource>>,
    /// The resources whose objects are among the items.
    pub(super) resources: Vec<Arc<ApiResource>>,
}

/// The number of concurrent list requests.
const MAX_CONCURRENT_LISTS: usize = 16;
/// More objects than this of one resource are read by one list instead of single gets.
const MAX_SINGLE_READS: usize = 8;

impl ClusterReader {
    pub(super) fn new(connection: &Connection) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let http = Http::with_clock(connection, clock.clone())?;
        let client = |http: Http| Client::new(Arc::new(http), Arc::new(User::default()));
        Ok(Self {
            metadata: client(http.metadata_only()),
            objects: client(http.clone()),
            mapper: RestMapper::new(http, clock.clone()),
            clock,
        })
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The root object, by the user's arguments: a resource as kubectl accepts it, a name, a namespace.
    pub(super) async fn find(&self, resource: &str, name: &str, namespace: &str) -> Result<TreeRoot, Status> {
        let resource = self.mapper.find(resource).await?;
        let namespace = if resource.namespaced { namespace } else { "" };
        let object = self
            .metadata
            .dynamic(resource.gvr.clone(), namespace)
            .get(name)
            .await?;
        Ok(TreeRoot {
            uid: object.uid().to_owned(),
            namespace: namespace.to_owned(),
        })
    }

    /// The resources that may have objects in the tree, each once, in the server's preferred version.
    pub(super) async fn resources(&self, root: &TreeRoot) -> Result<Vec<Arc<ApiResource>>, Status> {
        let all = self.mapper.all().await?;
        let mut seen: HashSet<GroupResource> = HashSet::new();
        let fits = |resource: &ApiResource| {
            let in_scope = resource.namespaced || root.namespace.is_empty();
            resource.is_watchable() && in_scope && seen.insert(resource.gvr.group_resource())
        };
        Ok(all.into_iter().filter(fits).map(Arc::new).collect())
    }

    /// The resources by a new discovery, since CustomResourceDefinitions are added and deleted.
    pub(super) async fn rediscover(&self, root: &TreeRoot) -> Result<Vec<Arc<ApiResource>>, Status> {
        self.mapper.reset();
        self.resources(root).await
    }

    /// The metadata of all objects that may be in the tree. A resource that cannot be listed is a warning, not an error: a
    /// user without access to Secrets still sees the rest.
    pub(super) async fn list(&self, root: &TreeRoot) -> Result<ListedObjects, Status> {
        let (mut lists, permits) = (JoinSet::new(), Arc::new(Semaphore::new(MAX_CONCURRENT_LISTS)));
        for resource in self.resources(root).await? {
            let objects = self.metadata.dynamic(resource.gvr.clone(), &root.namespace);
            let mut pages = objects.pages(ListOptions::default());
            let permits = permits.clone();
            lists.spawn(async move {
                let _permit = permits.acquire().await;
                let mut listed = Vec::new();
                while let Some(object) = pages.next().await {
                    match object {
                        Ok(object) => listed.push(object),
                        Err(status) => return (resource, Err(status)),
                    }
                }
                (resource, Ok(listed))
            });
        }
        let mut all = ListedObjects::default();
        while let Some(list) = lists.join_next().await {
            let (resource, listed) = list.map_err(Status::internal)?;
            all.add(resource, listed);
        }
        Ok(all)
    }

    /// The full objects, by uid. Objects deleted since are omitted.
    pub(super) async fn read<'a>(
        &self,
        root: &TreeRoot,
        items: impl Iterator<Item = &'a Item>,
    ) -> Result<HashMap<String, Arc<Stored>>, Status> {
        let mut by_resource: HashMap<&Gvr, Vec<&Item>> = HashMap::new();
        for item in items {
            by_resource.entry(&item.resource.gvr).or_default().push(item);
        }
        let mut objects = HashMap::new();
        for items in by_resource.into_values() {
            let read = match items.len() {
                0..=MAX_SINGLE_READS => self.read_each(&items).await?,
                _ => self.read_all(root, items[0]).await?,
            };
            let uids: HashSet<&str> = items.iter().map(|item| item.object.uid()).collect();
            let read = read.into_iter().filter(|object| uids.contains(object.uid()));
            objects.extend(read.map(|object| (object.uid().to_owned(), object)));
        }
        Ok(objects)
    }

    async fn read_each(&self, items: &[&Item]) -> Result<Vec<Arc<Stored>>, Status> {
        let mut objects = Vec::new();
        for item in items {
            let (resource, key) = (item.resource.gvr.clone(), item.object.key());
            match self
                .objects
                .dynamic(resource, key.namespace())
                .get(key.name())
                .await
            {
                Ok(object) => objects.push(object),
                Err(status) if status.is_not_found() => {}
                Err(status) => return Err(status),
            }
        }
        Ok(objects)
    }

    async fn read_all(&self, root: &TreeRoot, like: &Item) -> Result<Vec<Arc<Stored>>, Status> {
        let objects = self.objects.dynamic(like.resource.gvr.clone(), &root.namespace);
        let mut pages = objects.pages(ListOptions::default());
        let mut read = Vec::new();
        while let Some(object) = pages.next().await {
            read.push(object?);
        }
        Ok(read)
    }
}

// === impl Found ===

impl ListedObjects {
    /// Warnings about resources that could not be listed, one per reason.
    pub(super) fn problems(&self) -> impl Iterator<Item = String> {
        self.problems.iter().map(|(reason, resources)| {
            let names: Vec<String> = resources.iter().map(ToString::to_string).collect();
            format!(
                "{reason}: objects of these resources are omitted: {}",
                names.join(", ")
            )
        })
    }

    fn add(&mut self, resource: Arc<ApiResource>, listed: Result<Vec<Arc<Stored>>, Status>) {
        match listed {
            Ok(objects) => {
                let item = |object| Item {
                    resource: resource.clone(),
                    object,
                };
                self.items.extend(objects.into_iter().map(item));
                self.resources.push(resource);
            }
            Err(status) => {
                let name = resource.gvr.group_resource();
                self.problems.entry(status.reason).or_default().insert(name);
            }
        }
    }
}

//! What the server is asked.

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

/// A server in two forms: one that sends whole objects, one that sends their metadata.
#[derive(Debug)]
pub(super) struct ClusterReader {
    whole: Client,
    pub(super) bare: Client,
    mapper: RestMapper,
    pub(super) clock: Arc<dyn Clock>,
}

/// The root of the tree.
#[derive(Debug)]
pub(super) struct TreeRoot {
    pub(super) uid: String,
    /// What it owns lives here; anywhere, if this is empty.
    pub(super) namespace: String,
}

/// All metadata there is, and what could not be had.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) items: Vec<Item>,
    /// What could not be listed, by the reason.
    problems: BTreeMap<String, BTreeSet<GroupResource>>,
    /// The resources whose objects are among the items.
    pub(super) resources: Vec<Arc<ApiResource>>,
}

/// How many questions are asked at a time.
const AT_A_TIME: usize = 16;
/// More objects than this of one resource are read by one list rather than one by one.
const ONE_BY_ONE: usize = 8;

impl ClusterReader {
    pub(super) fn new(connection: &Connection) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let http = Http::with_clock(connection, clock.clone())?;
        let client = |http: Http| Client::new(Arc::new(http), Arc::new(User::default()));
        Ok(Self {
            bare: client(http.metadata_only()),
            whole: client(http.clone()),
            mapper: RestMapper::new(http, clock.clone()),
            clock,
        })
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The object that a user means.
    pub(super) async fn find(&self, word: &str, name: &str, namespace: &str) -> Result<TreeRoot, Status> {
        let resource = self.mapper.find(word).await?;
        let namespace = if resource.namespaced { namespace } else { "" };
        let object = self
            .bare
            .dynamic(resource.gvr.clone(), namespace)
            .get(name)
            .await?;
        Ok(TreeRoot {
            uid: object.uid().to_owned(),
            namespace: namespace.to_owned(),
        })
    }

    /// The resources that may have objects in the tree, each once, in the version that the server prefers.
    pub(super) async fn resources(&self, wanted: &TreeRoot) -> Result<Vec<Arc<ApiResource>>, Status> {
        let all = self.mapper.all().await?;
        let mut seen: HashSet<GroupResource> = HashSet::new();
        let fits = |resource: &ApiResource| {
            let in_reach = resource.namespaced || wanted.namespace.is_empty();
            resource.is_watchable() && in_reach && seen.insert(resource.gvr.group_resource())
        };
        Ok(all.into_iter().filter(fits).map(Arc::new).collect())
    }

    /// The same, asked anew: kinds come and go.
    pub(super) async fn resources_now(&self, wanted: &TreeRoot) -> Result<Vec<Arc<ApiResource>>, Status> {
        self.mapper.reset();
        self.resources(wanted).await
    }

    /// The metadata of everything that may be in the tree. What cannot be listed is a problem, not a failure: one who
    /// may not see Secrets still sees the rest.
    pub(super) async fn list(&self, wanted: &TreeRoot) -> Result<Found, Status> {
        let (mut asked, turns) = (JoinSet::new(), Arc::new(Semaphore::new(AT_A_TIME)));
        for resource in self.resources(wanted).await? {
            let objects = self.bare.dynamic(resource.gvr.clone(), &wanted.namespace);
            let mut pages = objects.pages(ListOptions::default());
            let turns = turns.clone();
            asked.spawn(async move {
                let _turn = turns.acquire().await;
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
        let mut found = Found::default();
        while let Some(answer) = asked.join_next().await {
            let (resource, listed) = answer.map_err(Status::internal)?;
            found.add(resource, listed);
        }
        Ok(found)
    }

    /// These objects in full, by uid. One that is gone by now is left out.
    pub(super) async fn read<'a>(
        &self,
        wanted: &TreeRoot,
        items: impl Iterator<Item = &'a Item>,
    ) -> Result<HashMap<String, Arc<Stored>>, Status> {
        let mut by_resource: HashMap<&Gvr, Vec<&Item>> = HashMap::new();
        for item in items {
            by_resource.entry(&item.resource.gvr).or_default().push(item);
        }
        let mut objects = HashMap::new();
        for items in by_resource.into_values() {
            let read = match items.len() {
                0..=ONE_BY_ONE => self.read_each(&items).await?,
                _ => self.read_all(wanted, items[0]).await?,
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
                .whole
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

    async fn read_all(&self, wanted: &TreeRoot, like: &Item) -> Result<Vec<Arc<Stored>>, Status> {
        let objects = self.whole.dynamic(like.resource.gvr.clone(), &wanted.namespace);
        let mut pages = objects.pages(ListOptions::default());
        let mut read = Vec::new();
        while let Some(object) = pages.next().await {
            read.push(object?);
        }
        Ok(read)
    }
}

// === impl Found ===

impl Found {
    /// What to tell a user of what could not be listed: a sentence for each reason.
    pub(super) fn problems(&self) -> impl Iterator<Item = String> {
        self.problems.iter().map(|(reason, resources)| {
            let names: Vec<String> = resources.iter().map(ToString::to_string).collect();
            format!("{reason}: objects of these are left out: {}", names.join(", "))
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

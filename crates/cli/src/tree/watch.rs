//! `--watch`: informers on metadata signal a change, then the changed objects of the tree are read and printed again.

use std::collections::{HashMap, HashSet};
use std::io::{IsTerminal, Write, stdout};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use setpoint_api::{Gvr, Stored};
use setpoint_client::ApiResource;
use setpoint_runtime::reflector::ReflectorOptions;
use setpoint_runtime::{HandlerOptions, Registration, SharedInformer, SharedInformerFactory};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::cluster_reader::{ClusterReader, TreeRoot};
use super::owner_tree::{Item, TreeNode, owner_tree};
use super::render::{self, Row};

/// Changes within this time are printed together.
const PAUSE: Duration = Duration::from_millis(100);
/// How often discovery is repeated to find new resources.
const REDISCOVERY: Duration = Duration::from_secs(30);

/// The tree as last printed, and the informers that notice changes.
struct TreeWatch<'a> {
    server: &'a ClusterReader,
    root: &'a TreeRoot,
    factory: SharedInformerFactory,
    informers: Vec<(Arc<ApiResource>, Arc<SharedInformer>)>,
    watched: HashSet<Gvr>,
    /// Held, since dropping a registration removes its handler.
    handlers: Vec<Registration>,
    changed: Arc<Notify>,
    /// Full objects by uid, as last read.
    objects: HashMap<String, Arc<Stored>>,
    printed: Vec<Row>,
}

/// Prints the tree whenever it changes, until interrupted or until its root is deleted.
pub(super) async fn watch(server: &ClusterReader, root: &TreeRoot) -> Result<()> {
    let factory = SharedInformerFactory::new(server.metadata.clone(), server.clock.clone());
    let listed = server.list(root).await?;
    for problem in listed.problems() {
        eprintln!("warning: {problem}");
    }
    let mut tree = TreeWatch {
        server,
        root,
        factory: factory.clone(),
        informers: Vec::new(),
        watched: HashSet::new(),
        handlers: Vec::new(),
        changed: Arc::default(),
        objects: HashMap::new(),
        printed: Vec::new(),
    };
    // A resource that cannot be listed now is not retried at every discovery.
    tree.watched.extend(
        server
            .resources(root)
            .await?
            .iter()
            .map(|resource| resource.gvr.clone()),
    );
    listed
        .resources
        .into_iter()
        .try_for_each(|resource| tree.add(resource))?;
    let running = factory.run(CancellationToken::new());
    tokio::select! {
        ended = running => Ok(ended?),
        ended = tree.run() => ended,
    }
}

impl TreeWatch<'_> {
    fn add(&mut self, resource: Arc<ApiResource>) -> Result<()> {
        let scope = ReflectorOptions {
            namespace: self.root.namespace.clone(),
            ..ReflectorOptions::default()
        };
        let informer = self.factory.informer(resource.gvr.clone(), scope);
        let changed = self.changed.clone();
        let handler = informer.add_handler(HandlerOptions::default(), move |_| changed.notify_one())?;
        self.watched.insert(resource.gvr.clone());
        self.handlers.push(handler);
        self.informers.push((resource, informer));
        Ok(())
    }

    async fn run(&mut self) -> Result<()> {
        // Before all caches are synced, dependents would seem to be missing.
        for (_, informer) in &self.informers {
            informer.cache().synced().await;
        }
        let mut discovery = self.server.clock.sleep(REDISCOVERY);
        loop {
            self.refresh().await?;
            tokio::select! {
                () = self.changed.notified() => self.server.clock.sleep(PAUSE).await,
                () = &mut discovery => {
                    self.discover().await?;
                    discovery = self.server.clock.sleep(REDISCOVERY);
                }
            }
        }
    }

    /// Adds informers for new resources. If discovery fails, the next one retries.
    async fn discover(&mut self) -> Result<()> {
        let resources = self.server.rediscover(self.root).await.unwrap_or_default();
        for resource in resources {
            if !self.watched.contains(&resource.gvr) {
                self.add(resource)?;
            }
        }
        Ok(())
    }

    async fn refresh(&mut self) -> Result<()> {
        let items = self.items();
        let nodes = owner_tree(&self.root.uid, &items);
        if nodes.is_empty() {
            bail!("the object has been deleted");
        }
        self.read(&nodes).await?;
        let rows = render::rows(&nodes, &self.objects);
        if rows != self.printed {
            print(&render::table(&rows, self.server.now()))?;
            self.printed = rows;
        }
        Ok(())
    }

    fn items(&self) -> Vec<Item> {
        let mut items = Vec::new();
        for (resource, informer) in &self.informers {
            let snapshot = informer.cache().snapshot();
            items.extend(snapshot.iter().map(|object| Item {
                resource: resource.clone(),
                object: object.clone(),
            }));
        }
        items
    }

    /// Reads new and changed objects, and drops those no longer in the tree.
    async fn read(&mut self, nodes: &[TreeNode<'_>]) -> Result<()> {
        let is_stale = |item: &Item| {
            let known = self.objects.get(item.object.uid());
            known.is_none_or(|known| known.resource_version() < item.object.resource_version())
        };
        let stale: Vec<&Item> = nodes
            .iter()
            .map(|node| node.item)
            .filter(|item| is_stale(item))
            .collect();
        let read = self.server.read(self.root, stale.into_iter()).await?;
        self.objects.extend(read);
        let uids: HashSet<&str> = nodes.iter().map(|node| node.item.object.uid()).collect();
        self.objects.retain(|uid, _| uids.contains(uid.as_str()));
        Ok(())
    }
}

/// Prints the tree. On a terminal it overwrites the one before; elsewhere it is appended.
fn print(table: &str) -> Result<()> {
    let mut out = stdout().lock();
    match out.is_terminal() {
        true => write!(out, "\x1b[H\x1b[2J{table}")?,
        false => writeln!(out, "{table}")?,
    }
    Ok(out.flush()?)
}

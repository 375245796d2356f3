//! The tree as it changes: informers of metadata tell that something did, and what is in the tree is read again.

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

/// Changes that come together are shown together.
const PAUSE: Duration = Duration::from_millis(100);
/// How often the server is asked for kinds that it did not have.
const REDISCOVERY: Duration = Duration::from_secs(30);

/// A view that is drawn again whenever it is another.
struct View<'a> {
    server: &'a ClusterReader,
    wanted: &'a TreeRoot,
    factory: SharedInformerFactory,
    informers: Vec<(Arc<ApiResource>, Arc<SharedInformer>)>,
    watched: HashSet<Gvr>,
    /// Keeps the handlers that tell of changes.
    handlers: Vec<Registration>,
    changed: Arc<Notify>,
    /// Objects in full, by uid, as they were when last looked at.
    objects: HashMap<String, Arc<Stored>>,
    printed: Vec<Row>,
}

/// Draws the tree whenever it changes, until interrupted or until its root is gone.
pub(super) async fn watch(server: &ClusterReader, wanted: &TreeRoot) -> Result<()> {
    let factory = SharedInformerFactory::new(server.bare.clone(), server.clock.clone());
    let found = server.list(wanted).await?;
    for problem in found.problems() {
        eprintln!("warning: {problem}");
    }
    let mut view = View {
        server,
        wanted,
        factory: factory.clone(),
        informers: Vec::new(),
        watched: HashSet::new(),
        handlers: Vec::new(),
        changed: Arc::default(),
        objects: HashMap::new(),
        printed: Vec::new(),
    };
    // What may not be listed now is not tried over and over again.
    view.watched.extend(
        server
            .resources(wanted)
            .await?
            .iter()
            .map(|resource| resource.gvr.clone()),
    );
    found
        .resources
        .into_iter()
        .try_for_each(|resource| view.add(resource))?;
    let running = factory.run(CancellationToken::new());
    tokio::select! {
        ended = running => Ok(ended?),
        ended = view.run() => ended,
    }
}

impl View<'_> {
    fn add(&mut self, resource: Arc<ApiResource>) -> Result<()> {
        let scope = ReflectorOptions {
            namespace: self.wanted.namespace.clone(),
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
        // Before everything is there, something might seem to be missing.
        for (_, informer) in &self.informers {
            informer.cache().synced().await;
        }
        let mut discovery = self.server.clock.sleep(REDISCOVERY);
        loop {
            self.draw().await?;
            tokio::select! {
                () = self.changed.notified() => self.server.clock.sleep(PAUSE).await,
                () = &mut discovery => {
                    self.discover().await?;
                    discovery = self.server.clock.sleep(REDISCOVERY);
                }
            }
        }
    }

    /// Follows kinds that have come since. A server that does not answer is asked again later.
    async fn discover(&mut self) -> Result<()> {
        let resources = self.server.resources_now(self.wanted).await.unwrap_or_default();
        for resource in resources {
            if !self.watched.contains(&resource.gvr) {
                self.add(resource)?;
            }
        }
        Ok(())
    }

    async fn draw(&mut self) -> Result<()> {
        let items = self.items();
        let branches = owner_tree(&self.wanted.uid, &items);
        if branches.is_empty() {
            bail!("the object is gone");
        }
        self.read(&branches).await?;
        let rows = render::rows(&branches, &self.objects);
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

    /// Reads what is new or has changed, and forgets what is no longer in the tree.
    async fn read(&mut self, branches: &[TreeNode<'_>]) -> Result<()> {
        let is_stale = |item: &Item| {
            let known = self.objects.get(item.object.uid());
            known.is_none_or(|known| known.resource_version() < item.object.resource_version())
        };
        let stale: Vec<&Item> = branches
            .iter()
            .map(|branch| branch.item)
            .filter(|item| is_stale(item))
            .collect();
        let read = self.server.read(self.wanted, stale.into_iter()).await?;
        self.objects.extend(read);
        let uids: HashSet<&str> = branches.iter().map(|branch| branch.item.object.uid()).collect();
        self.objects.retain(|uid, _| uids.contains(uid.as_str()));
        Ok(())
    }
}

/// On a terminal the tree takes the place of the one before; elsewhere it follows it.
fn print(table: &str) -> Result<()> {
    let mut out = stdout().lock();
    match out.is_terminal() {
        true => write!(out, "\x1b[H\x1b[2J{table}")?,
        false => writeln!(out, "{table}")?,
    }
    Ok(out.flush()?)
}

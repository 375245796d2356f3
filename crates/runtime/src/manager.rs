//! The one who runs several controllers, with what they are given.

mod context;

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use setpoint_api::{Clock, Reply, Request, Status, SystemClock};
use setpoint_cache::Caches;
use setpoint_client::{Client, Object};
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::controller::Controller;
use crate::endpoints::Endpoints;
use crate::events::Sink;
use crate::factory::Factory;
use crate::leader::{self, Elector};
use crate::reconcile::{Error, Item};
use crate::rights::Rights;

pub use context::Context;

/// Runs several parts until stopped; the first that fails stops the others.
///
/// Caches and parts of every replica run at once; those added by [`Manager::add_for_leader`] wait until this process
/// leads, if there is an election. A stop gives the parts a while to end, then it drops them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use setpoint_testkit::Cluster;
/// # let cluster = Cluster::start().await;
/// # let (client, clock) = (cluster.client("me"), std::sync::Arc::new(setpoint_api::SystemClock::new()));
/// use setpoint_runtime::Manager;
/// use tokio::net::TcpListener;
/// use tokio_util::sync::CancellationToken;
///
/// let mut manager = Manager::remote(client, clock);
/// manager.add("ticker", |context, stop| async move {
///     // Whatever runs beside the controllers; it has until the stop.
///     # let _ = context;
///     stop.cancelled().await;
///     Ok(())
/// });
/// manager.check("disk", || Ok(()));
/// manager.serve(TcpListener::bind("127.0.0.1:0").await?);
///
/// // In a program: manager.run_until_interrupted().await?
/// let stop = CancellationToken::new();
/// stop.cancel();
/// manager.run(stop).await?;
/// # Ok(())
/// # }
/// ```
pub struct Manager {
    context: Context,
    sink: Sink,
    parts: Vec<(&'static str, Part)>,
    leader_parts: Vec<(&'static str, Part)>,
    election: Option<leader::Config>,
    grace: Duration,
    checks: Vec<(&'static str, Check)>,
    ready_checks: Vec<(&'static str, Check)>,
    listeners: Vec<TcpListener>,
    rights: Rights,
}

/// The parts for the leader, for whoever runs them.
struct Led {
    context: Context,
    parts: Vec<(&'static str, Part)>,
}

/// Whether something is well, and if not, why.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

type Part = Box<dyn FnOnce(Context, CancellationToken) -> Running + Send>;

/// A part at work. Large ones are boxed where they are made: the body of an `async fn` is compiled by whoever awaits it.
pub type Running = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// How long parts have to end after a stop, as controller-runtime gives them.
const GRACE: Duration = Duration::from_secs(30);
/// What controller-runtime has. A watch tells everything; this is for what no watch tells of.
const RESYNC: Duration = Duration::from_secs(10 * 60 * 60);

// === impl Manager ===

impl Manager {
    /// A manager without parts, on caches that somebody else keeps.
    pub fn new(caches: Arc<dyn Caches>, client: Client, clock: Arc<dyn Clock>) -> Self {
        let asked = client.clone();
        let (context, sink) = Context::new(caches, client, clock);
        context.metrics.include(move || asked.metrics_text());
        Self {
            context,
            sink,
            parts: Vec::new(),
            leader_parts: Vec::new(),
            election: None,
            grace: GRACE,
            checks: Vec::new(),
            ready_checks: Vec::new(),
            listeners: Vec::new(),
            rights: Rights::default(),
        }
    }

    /// A manager of a process of its own: it mirrors what its parts read, once for all of them.
    pub fn remote(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self::mirroring(Factory::new(client.clone(), clock.clone()), client, clock)
    }

    /// The same with a factory of one's own making.
    pub fn mirroring(factory: Factory, client: Client, clock: Arc<dyn Clock>) -> Self {
        let mut manager = Self::new(Arc::new(factory.clone()), client, clock);
        manager.resync_every(Some(RESYNC));
        let (mirrors, figures) = (factory.clone(), factory.clone());
        manager.check_readiness("caches", move || mirrors.check_synced());
        manager.context.metrics.include(move || figures.metrics_text());
        manager.add("caches", |_, stop| async move { factory.run(stop).await });
        manager
    }

    /// A manager that has no server and is never run: to see what its controllers need.
    pub fn unconnected() -> Self {
        let refuse = |_: Request| -> Reply<'static> {
            Box::pin(ready(Err(Status::unavailable("there is no server"))))
        };
        let client = Client::new(Arc::new(refuse), Arc::default());
        Self::remote(client, Arc::new(SystemClock::new()))
    }

    /// What its parts are given.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// What the process must be allowed to do: what its controllers ask for, to write events, and to hold the lease.
    pub fn rights(&self) -> Rights {
        let mut rights = self.rights.clone();
        rights.add(Event::resource().group_resource(), &["create", "update", "patch"]);
        if self.election.is_some() {
            rights.add(Lease::resource().group_resource(), &["get", "create", "update"]);
        }
        rights
    }

    /// One more part, started with the context when the manager runs.
    pub fn add<F>(
        &mut self,
        name: &'static str,
        start: impl FnOnce(Context, CancellationToken) -> F + Send + 'static,
    ) where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.parts.push((name, part(start)));
    }

    /// One more part that only the leader runs. Without an election everyone is.
    pub fn add_for_leader<F>(
        &mut self,
        name: &'static str,
        start: impl FnOnce(Context, CancellationToken) -> F + Send + 'static,
    ) where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.leader_parts.push((name, part(start)));
    }

    /// One more controller, for the leader.
    pub fn control<K: Item>(&mut self, controller: Controller<K>) {
        self.rights.extend(controller.rights());
        self.add_for_leader(controller.name(), |context, stop| async move {
            controller.run(&context, stop).await
        });
    }

    /// Lets the parts for the leader wait until this process is it.
    pub fn elect(&mut self, election: leader::Config) {
        self.election = Some(election);
    }

    /// How often all controllers look at everything again that do not say so themselves: every ten hours or so in a process
    /// of its own, unless it is told otherwise here.
    pub fn resync_every(&mut self, period: Option<Duration>) {
        self.context.resync = period;
    }

    /// How long parts have to end after a stop.
    pub fn grace(&mut self, grace: Duration) {
        self.grace = grace;
    }

    /// One more thing that must be well for the process to be.
    pub fn check(
        &mut self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.checks.push((name, Arc::new(check)));
    }

    /// One more thing that must be well for others to rely on the process. Until then it is not ready, but it lives.
    ///
    /// A manager that mirrors a server is not ready before it has seen everything that its parts read.
    pub fn check_readiness(
        &mut self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.ready_checks.push((name, Arc::new(check)));
    }

    /// Answers `/healthz`, `/readyz` and `/metrics` on this listener while the manager runs: what the probes of a pod and
    /// whoever gathers figures ask for, in the forms of controller-runtime. Plain HTTP, for anybody.
    pub fn serve(&mut self, listener: TcpListener) {
        self.listeners.push(listener);
    }

    /// What must be well for the process to be; to be asked while the manager runs.
    pub fn checks(&self) -> Vec<(&'static str, Check)> {
        self.checks.clone()
    }

    /// Runs all parts until stopped.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), Error> {
        let stop = stop.child_token();
        // Whatever ends this, its children are told.
        let _guard = stop.clone().drop_guard();
        let (grace, clock) = (self.grace, self.context.clock.clone());
        self.add_led();
        self.add_endpoints();
        let mut running = JoinSet::new();
        let sink = self.sink.run(stop.clone());
        let _place = self.context.tell_events();
        running.spawn(async move {
            sink.await;
            ("event recorder", Ok(()))
        });
        start(&mut running, self.parts, &self.context, &stop);
        let mut first = Ok(());
        let finished = async {
            while let Some(ended) = running.join_next().await {
                if let Err(error) = outcome(ended) {
                    stop.cancel();
                    first = std::mem::replace(&mut first, Ok(())).and(Err(error));
                }
            }
        };
        let too_late = async {
            stop.cancelled().await;
            clock.sleep(grace).await;
        };
        tokio::select! {
            biased;
            () = finished => {}
            () = too_late => tracing::error!(?grace, "parts that did not end in time are dropped"),
        }
        first
    }

    /// Runs all parts until the process is told to end: by Ctrl-C, or by SIGTERM, which is how a cluster ends a pod.
    /// Reconciles that run are finished, and the lease is given back.
    pub async fn run_until_interrupted(self) -> Result<(), Error> {
        let stop = CancellationToken::new();
        let mut terminated = signal(SignalKind::terminate()).map_err(Error::failed)?;
        let running = self.run(stop.clone());
        tokio::pin!(running);
        tokio::select! {
            ended = &mut running => return ended,
            heard = ctrl_c() => heard.map_err(Error::failed)?,
            _ = terminated.recv() => {}
        }
        stop.cancel();
        running.await
    }

    /// The parts for the leader become one part, which waits for the lease if there is an election.
    fn add_led(&mut self) {
        let led = Led {
            context: self.context.clone(),
            parts: std::mem::take(&mut self.leader_parts),
        };
        let Some(election) = self.election.take() else {
            self.parts.extend(led.parts);
            return;
        };
        let events = self.context.events.of(&election.identity);
        let elector = Elector::new(&self.context.client, election, self.context.clock.clone());
        let elector = elector.with_events(events);
        let standing = elector.standing();
        let figures = standing.clone();
        self.context.metrics.include(move || figures.metrics_text());
        self.check("leader-election", move || {
            standing.check(GRACE).map_err(|overdue| overdue.to_string())
        });
        self.add("leader election", |_, stop| {
            elector.run(|stop| led.run(stop), stop)
        });
    }

    fn add_endpoints(&mut self) {
        let (live, ready) = (self.checks.clone(), self.ready_checks.clone());
        let endpoints = Endpoints::new(live, ready, self.context.metrics.clone());
        for listener in std::mem::take(&mut self.listeners) {
            let endpoints = endpoints.clone();
            self.add("probes", |context, stop| {
                endpoints.run(listener, context.clock, stop)
            });
        }
    }
}

// === impl Led ===

impl Led {
    async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let stop = stop.child_token();
        let _guard = stop.clone().drop_guard();
        let mut running = JoinSet::new();
        start(&mut running, self.parts, &self.context, &stop);
        let mut first = Ok(());
        while let Some(ended) = running.join_next().await {
            if let Err(error) = outcome(ended) {
                stop.cancel();
                first = first.and(Err(error));
            }
        }
        first
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts.iter().chain(&self.leader_parts);
        let names = parts.map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

type Ended = (&'static str, Result<(), Error>);

fn part<F>(start: impl FnOnce(Context, CancellationToken) -> F + Send + 'static) -> Part
where
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    Box::new(move |context, stop| Box::pin(start(context, stop)))
}

fn start(
    running: &mut JoinSet<Ended>,
    parts: Vec<(&'static str, Part)>,
    context: &Context,
    stop: &CancellationToken,
) {
    for (name, part) in parts {
        let part = part(context.clone(), stop.clone());
        running.spawn(async move { (name, part.await) });
    }
}

fn outcome(ended: Result<Ended, JoinError>) -> Result<(), Error> {
    let ended = ended.map_err(|error| Error::Panicked(format!("a part: {error}")));
    ended.and_then(|(name, result)| named(name, result))
}

fn named(name: &str, result: Result<(), Error>) -> Result<(), Error> {
    if let Err(error) = &result {
        tracing::error!(part = name, %error, "a part failed");
    }
    result
}

#[cfg(test)]
mod tests {
    use setpoint_api::{GroupResource, User};
    use setpoint_cache::Cache;

    use super::*;

    struct Nothing;

    impl Caches for Nothing {
        fn cache(&self, _: &GroupResource) -> Option<Arc<Cache>> {
            None
        }
    }

    fn manager() -> Manager {
        let serve =
            |_: Request| -> Reply<'static> { Box::pin(async { Err(Status::unavailable("no server")) }) };
        let client = Client::new(Arc::new(serve), Arc::new(User::component("test")));
        Manager::new(Arc::new(Nothing), client, Arc::new(SystemClock::new()))
    }

    async fn until_stopped(_: Context, stop: CancellationToken) -> Result<(), Error> {
        stop.cancelled().await;
        Ok(())
    }

    #[tokio::test]
    async fn the_first_part_that_fails_stops_the_others() {
        let mut manager = manager();
        manager.add("patient", until_stopped);
        manager.add("broken", async |_, _| Err(Error::failed("out of order")));
        let error = manager.run(CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "out of order");
    }

    #[tokio::test]
    async fn a_part_that_panics_is_a_failure_too() {
        let mut manager = manager();
        manager.add("patient", until_stopped);
        manager.add("broken", async |_, _| panic!("a broken promise"));
        let error = manager.run(CancellationToken::new()).await.unwrap_err();
        assert!(error.to_string().ends_with("panicked"), "{error}");
    }

    #[tokio::test]
    async fn a_stop_ends_all_parts_and_is_no_failure() {
        let mut manager = manager();
        manager.add("one", until_stopped);
        manager.add("two", until_stopped);
        let stop = CancellationToken::new();
        stop.cancel();
        manager.run(stop).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_does_not_end_in_time_is_dropped() {
        let mut manager = manager();
        manager.grace(Duration::from_secs(5));
        manager.add("deaf", async |_, _| std::future::pending().await);
        let stop = CancellationToken::new();
        stop.cancel();
        let before = tokio::time::Instant::now();
        manager.run(stop).await.unwrap();
        assert_eq!(before.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test]
    async fn without_an_election_everyone_leads() {
        let mut manager = manager();
        manager.add_for_leader("work", async |_, _| Err(Error::failed("did run")));
        let error = manager.run(CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "did run");
    }
}

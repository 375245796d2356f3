//! [`Manager`]: runs controllers and other runnables of a process, with their shared [`Context`].

mod context;

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use setpoint_api::{ApiVerb, Clock, Request, ServeFuture, Status, SystemClock};
use setpoint_cache::Caches;
use setpoint_client::{Client, Object};
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::controller::Controller;
use crate::events::Sink;
use crate::factory::SharedInformerFactory;
use crate::leader::{self, Elector};
use crate::probe_server::ProbeServer;
use crate::rbac::RbacRules;
use crate::reconcile::{Error, Item};

pub use context::Context;

/// Runs several runnables until stopped; the first that fails stops the others.
///
/// Caches and runnables added by [`Manager::add`] run in every replica; those added by [`Manager::add_for_leader`] wait
/// until this process leads, if leader election is enabled. After a stop the runnables have a grace period to end, then
/// they are dropped.
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
///     // Runs beside the controllers, until the stop.
///     # let _ = context;
///     stop.cancelled().await;
///     Ok(())
/// });
/// manager.add_healthz_check("disk", || Ok(()));
/// manager.serve_endpoints(TcpListener::bind("127.0.0.1:0").await?);
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
    runnables: Vec<(&'static str, Runnable)>,
    leader_runnables: Vec<(&'static str, Runnable)>,
    election: Option<leader::Config>,
    grace: Duration,
    checks: Vec<(&'static str, Check)>,
    ready_checks: Vec<(&'static str, Check)>,
    listeners: Vec<TcpListener>,
    rbac_rules: RbacRules,
}

/// The runnables that only the leader runs.
struct LeaderRunnables {
    context: Context,
    runnables: Vec<(&'static str, Runnable)>,
}

/// A health check; the error is the reason why it failed.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

type Runnable = Box<dyn FnOnce(Context, CancellationToken) -> RunnableFuture + Send>;

/// A running runnable. Large futures are boxed in their own crate: the body of an `async fn` is compiled in the crate that
/// awaits it.
pub type RunnableFuture = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// The default of controller-runtime's `GracefulShutdownTimeout`.
const GRACE: Duration = Duration::from_secs(30);
/// The default of controller-runtime's `SyncPeriod`: for changes outside the cluster, which no watch reports.
const RESYNC: Duration = Duration::from_secs(10 * 60 * 60);

// === impl Manager ===

impl Manager {
    /// A manager without runnables, on existing caches.
    pub fn new(caches: Arc<dyn Caches>, client: Client, clock: Arc<dyn Clock>) -> Self {
        let metrics_client = client.clone();
        let (context, sink) = Context::new(caches, client, clock);
        context.metrics.include(move || metrics_client.metrics_text());
        Self {
            context,
            sink,
            runnables: Vec::new(),
            leader_runnables: Vec::new(),
            election: None,
            grace: GRACE,
            checks: Vec::new(),
            ready_checks: Vec::new(),
            listeners: Vec::new(),
            rbac_rules: RbacRules::default(),
        }
    }

    /// A manager of a separate process: it runs informers for the resources that its runnables read, shared by all of them.
    pub fn remote(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self::with_factory(
            SharedInformerFactory::new(client.clone(), clock.clone()),
            client,
            clock,
        )
    }

    /// The same with a given informer factory.
    pub fn with_factory(factory: SharedInformerFactory, client: Client, clock: Arc<dyn Clock>) -> Self {
        let mut manager = Self::new(Arc::new(factory.clone()), client, clock);
        manager.resync_every(Some(RESYNC));
        let (synced, metrics) = (factory.clone(), factory.clone());
        manager.add_readyz_check("caches", move || synced.check_synced());
        manager.context.metrics.include(move || metrics.metrics_text());
        manager.add("caches", |_, stop| async move { factory.run(stop).await });
        manager
    }

    /// A manager without a server, which is never run: to collect the RBAC rules of its controllers.
    pub fn unconnected() -> Self {
        let unavailable = |_: Request| -> ServeFuture<'static> {
            Box::pin(ready(Err(Status::unavailable("not connected to a server"))))
        };
        let client = Client::new(Arc::new(unavailable), Arc::default());
        Self::remote(client, Arc::new(SystemClock::new()))
    }

    /// The context that its runnables get.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The RBAC rules that the process needs: those of its controllers, those to write events, and those to hold the lease.
    pub fn rbac_rules(&self) -> RbacRules {
        let mut rbac_rules = self.rbac_rules.clone();
        rbac_rules.add(
            Event::resource().group_resource(),
            [ApiVerb::Create, ApiVerb::Update, ApiVerb::Patch],
        );
        if self.election.is_some() {
            rbac_rules.add(
                Lease::resource().group_resource(),
                [ApiVerb::Get, ApiVerb::Create, ApiVerb::Update],
            );
        }
        rbac_rules
    }

    /// Adds a runnable, which is started with the context when the manager runs.
    pub fn add<F>(
        &mut self,
        name: &'static str,
        start: impl FnOnce(Context, CancellationToken) -> F + Send + 'static,
    ) where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.runnables.push((name, runnable(start)));
    }

    /// Adds a runnable that only the leader runs. Without leader election every replica runs it.
    pub fn add_for_leader<F>(
        &mut self,
        name: &'static str,
        start: impl FnOnce(Context, CancellationToken) -> F + Send + 'static,
    ) where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.leader_runnables.push((name, runnable(start)));
    }

    /// Adds a controller, which only the leader runs.
    pub fn add_controller<K: Item>(&mut self, controller: Controller<K>) {
        self.rbac_rules.extend(controller.rbac_rules());
        self.add_for_leader(controller.name(), |context, stop| async move {
            controller.run(&context, stop).await
        });
    }

    /// Enables leader election: the leader's runnables wait until this process leads.
    pub fn enable_leader_election(&mut self, election: leader::Config) {
        self.election = Some(election);
    }

    /// Sets the resync period of controllers that have none of their own (controller-runtime's `SyncPeriod`). The default is
    /// about ten hours in a separate process.
    pub fn resync_every(&mut self, period: Option<Duration>) {
        self.context.resync = period;
    }

    /// Sets how long runnables have to end after a stop.
    pub fn graceful_shutdown_timeout(&mut self, grace: Duration) {
        self.grace = grace;
    }

    /// Adds a liveness check, served under `/healthz`.
    pub fn add_healthz_check(
        &mut self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.checks.push((name, Arc::new(check)));
    }

    /// Adds a readiness check, served under `/readyz`.
    ///
    /// A manager with its own informers is not ready before all of them have synced.
    pub fn add_readyz_check(
        &mut self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.ready_checks.push((name, Arc::new(check)));
    }

    /// Serves `/healthz`, `/readyz` and `/metrics` on this listener while the manager runs, for a pod's probes and for
    /// Prometheus, in controller-runtime's formats. Plain HTTP without authentication.
    pub fn serve_endpoints(&mut self, listener: TcpListener) {
        self.listeners.push(listener);
    }

    /// The liveness checks, to be run while the manager runs.
    pub fn healthz_checks(&self) -> Vec<(&'static str, Check)> {
        self.checks.clone()
    }

    /// Runs all runnables until stopped.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), Error> {
        let stop = stop.child_token();
        // Cancels the children however this function ends.
        let _guard = stop.clone().drop_guard();
        let (grace, clock) = (self.grace, self.context.clock.clone());
        self.add_leader_runnables();
        self.add_probe_servers();
        let mut running = JoinSet::new();
        let sink = self.sink.run(stop.clone());
        let _registration = self.context.register_activity();
        running.spawn(async move {
            sink.await;
            ("event recorder", Ok(()))
        });
        start(&mut running, self.runnables, &self.context, &stop);
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
            () = too_late => tracing::error!(?grace, "runnables did not stop within the grace period; dropping them"),
        }
        first
    }

    /// Runs all runnables until SIGINT (Ctrl-C) or SIGTERM, which the kubelet sends to a terminating pod. Running reconciles
    /// are finished, and the lease is released.
    pub async fn run_until_interrupted(self) -> Result<(), Error> {
        let stop = CancellationToken::new();
        let mut terminated = signal(SignalKind::terminate()).map_err(Error::failed)?;
        let running = self.run(stop.clone());
        tokio::pin!(running);
        tokio::select! {
            ended = &mut running => return ended,
            signal = ctrl_c() => signal.map_err(Error::failed)?,
            _ = terminated.recv() => {}
        }
        stop.cancel();
        running.await
    }

    /// Turns the leader's runnables into one runnable, which waits for the lease if leader election is enabled.
    fn add_leader_runnables(&mut self) {
        let leader = LeaderRunnables {
            context: self.context.clone(),
            runnables: std::mem::take(&mut self.leader_runnables),
        };
        let Some(election) = self.election.take() else {
            self.runnables.extend(leader.runnables);
            return;
        };
        let events = self.context.events.for_component(&election.identity);
        let elector = Elector::new(&self.context.client, election, self.context.clock.clone());
        let elector = elector.with_events(events);
        let leadership = elector.leadership();
        let metrics = leadership.clone();
        self.context.metrics.include(move || metrics.metrics_text());
        self.add_healthz_check("leader-election", move || {
            leadership.check(GRACE).map_err(|overdue| overdue.to_string())
        });
        self.add("leader election", |_, stop| {
            elector.run(|stop| leader.run(stop), stop)
        });
    }

    fn add_probe_servers(&mut self) {
        let (live, ready) = (self.checks.clone(), self.ready_checks.clone());
        let server = ProbeServer::new(live, ready, self.context.metrics.clone());
        for listener in std::mem::take(&mut self.listeners) {
            let server = server.clone();
            self.add("probes", |context, stop| {
                server.run(listener, context.clock, stop)
            });
        }
    }
}

// === impl LeaderRunnables ===

impl LeaderRunnables {
    async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let stop = stop.child_token();
        let _guard = stop.clone().drop_guard();
        let mut running = JoinSet::new();
        start(&mut running, self.runnables, &self.context, &stop);
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
        let runnables = self.runnables.iter().chain(&self.leader_runnables);
        let names = runnables.map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

type RunnableResult = (&'static str, Result<(), Error>);

fn runnable<F>(start: impl FnOnce(Context, CancellationToken) -> F + Send + 'static) -> Runnable
where
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    Box::new(move |context, stop| Box::pin(start(context, stop)))
}

fn start(
    running: &mut JoinSet<RunnableResult>,
    runnables: Vec<(&'static str, Runnable)>,
    context: &Context,
    stop: &CancellationToken,
) {
    for (name, runnable) in runnables {
        let future = runnable(context.clone(), stop.clone());
        running.spawn(async move { (name, future.await) });
    }
}

fn outcome(ended: Result<RunnableResult, JoinError>) -> Result<(), Error> {
    let ended = ended.map_err(|error| Error::Panicked(format!("runnable: {error}")));
    ended.and_then(|(name, result)| named(name, result))
}

fn named(name: &str, result: Result<(), Error>) -> Result<(), Error> {
    if let Err(error) = &result {
        tracing::error!(runnable = name, %error, "runnable failed");
    }
    result
}

#[cfg(test)]
mod tests {
    use setpoint_api::{GroupResource, User};
    use setpoint_cache::Cache;

    use super::*;

    struct NoCaches;

    impl Caches for NoCaches {
        fn cache(&self, _: &GroupResource) -> Option<Arc<Cache>> {
            None
        }
    }

    fn manager() -> Manager {
        let serve = |_: Request| -> ServeFuture<'static> {
            Box::pin(async { Err(Status::unavailable("no server")) })
        };
        let client = Client::new(Arc::new(serve), Arc::new(User::component("test")));
        Manager::new(Arc::new(NoCaches), client, Arc::new(SystemClock::new()))
    }

    async fn until_stopped(_: Context, stop: CancellationToken) -> Result<(), Error> {
        stop.cancelled().await;
        Ok(())
    }

    #[tokio::test]
    async fn the_first_runnable_that_fails_stops_the_others() {
        let mut manager = manager();
        manager.add("patient", until_stopped);
        manager.add("broken", async |_, _| Err(Error::failed("out of order")));
        let error = manager.run(CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "out of order");
    }

    #[tokio::test]
    async fn a_panic_of_a_runnable_is_an_error() {
        let mut manager = manager();
        manager.add("patient", until_stopped);
        manager.add("broken", async |_, _| panic!("a broken promise"));
        let error = manager.run(CancellationToken::new()).await.unwrap_err();
        assert!(error.to_string().ends_with("panicked"), "{error}");
    }

    #[tokio::test]
    async fn a_stop_ends_all_runnables_without_an_error() {
        let mut manager = manager();
        manager.add("one", until_stopped);
        manager.add("two", until_stopped);
        let stop = CancellationToken::new();
        stop.cancel();
        manager.run(stop).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_runnable_that_does_not_end_in_the_grace_period_is_dropped() {
        let mut manager = manager();
        manager.graceful_shutdown_timeout(Duration::from_secs(5));
        manager.add("deaf", async |_, _| std::future::pending().await);
        let stop = CancellationToken::new();
        stop.cancel();
        let before = tokio::time::Instant::now();
        manager.run(stop).await.unwrap();
        assert_eq!(before.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test]
    async fn without_leader_election_every_replica_runs_the_leader_runnables() {
        let mut manager = manager();
        manager.add_for_leader("work", async |_, _| Err(Error::failed("did run")));
        let error = manager.run(CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "did run");
    }
}

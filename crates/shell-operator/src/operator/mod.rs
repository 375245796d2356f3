//! The operator: loads the hooks, runs the queues, and adds tasks to them when something happens.
//!
//! At start the main queue gets the hooks that run at start, in their order, and then for each hook the tasks that start
//! its monitors and its schedules. The run with the existing objects is next in the main queue; only after it succeeds do
//! the events of that binding run the hook, each in the queue of the binding.

mod enable;
mod reviews;
mod run_hook;
mod worker;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::Clock;
use setpoint_client::{Client, Http};
use setpoint_runtime::SharedInformerFactory;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::binding_context::{BindingContext, Cause};
use crate::config::MAIN_QUEUE;
use crate::hook::Hook;
use crate::http;
use crate::log::LogSettings;
use crate::metrics::{LabelSet, MetricStorage, names};
use crate::monitor::MonitorFactory;
use crate::patch::Patcher;
use crate::queue::{HookRun, Queue, Task, TaskKind};
use crate::resource::ResourceFinder;
use crate::schedule::Scheduler;
use crate::tmp_dir;
use crate::webhook::{self, WebhookOptions};

/// Options of an operator.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory of hooks.
    pub hooks_dir: PathBuf,
    /// The directory of the files of runs.
    pub tmp_dir: PathBuf,
    /// The prefix of the names of metrics.
    pub metrics_prefix: String,
    /// Where metrics are served, if they are.
    pub listen: Option<SocketAddr>,
    /// The unix socket of the debug commands, if they are served.
    pub debug_socket: Option<PathBuf>,
    /// Whether the files of runs are kept.
    pub keep_tmp_files: bool,
    /// Whether JSON lines of hooks are printed as they are.
    pub proxy_hook_json: bool,
    /// The servers of webhook bindings.
    pub webhooks: WebhookOptions,
    /// The log, whose level the debug commands change.
    pub log: Arc<LogSettings>,
}

/// Clients of one API server: for monitors, and for the operations that hooks write.
#[derive(Debug, Clone)]
pub struct Clients {
    /// Lists and watches.
    pub monitors: Http,
    /// Writes objects.
    pub patcher: Http,
    /// How long one request of the patcher may take.
    pub patcher_timeout: Duration,
}

/// Runs the hooks of one directory.
#[derive(Debug, Clone)]
pub struct Operator {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) hooks: Vec<Arc<Hook>>,
    pub(crate) queues: BTreeMap<String, Arc<Queue>>,
    pub(crate) metrics: Arc<MetricStorage>,
    pub(crate) hook_metrics: MetricStorage,
    clock: Arc<dyn Clock>,
    client: Client,
    scheduler: Scheduler,
    informers: SharedInformerFactory,
    monitors: MonitorFactory,
    patcher: Patcher,
}

/// Why an operator cannot start or has ended.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document them")]
pub enum Error {
    #[error(transparent)]
    Hook(#[from] crate::hook::Error),
    #[error("cannot create the directory of temporary files {path:?}: {source}")]
    TmpDir { path: PathBuf, source: std::io::Error },
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: std::io::Error },
    #[error("a part of the operator failed: {0}")]
    Failed(String),
}

/// How often the counter of live ticks increases.
const LIVE_TICK: Duration = Duration::from_secs(10);
/// How often the lengths of the queues are measured.
const QUEUE_TICK: Duration = Duration::from_secs(5);

impl Operator {
    /// Loads the hooks: runs each of them with `--config`.
    pub async fn load(mut options: Options, clients: Clients, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        tracing::info!(path = %options.hooks_dir.display(), "Initialize hooks manager. Search for and load all hooks.");
        options.tmp_dir = tmp_dir::open(&options.tmp_dir).map_err(|source| Error::TmpDir {
            path: options.tmp_dir.clone(),
            source,
        })?;
        let hooks = Hook::load_all(&absolute(&options.hooks_dir), &clock).await?;
        let metrics = Arc::new(MetricStorage::new(&options.metrics_prefix));
        let client = Client::from_http(clients.monitors.clone());
        let informers = SharedInformerFactory::new(client.clone(), clock.clone());
        let resources = ResourceFinder::new(clients.monitors, clock.clone());
        let patcher = Patcher::new(
            Client::from_http(clients.patcher),
            resources.clone(),
            clients.patcher_timeout,
            clock.clone(),
        );
        let shared = Shared {
            queues: queues(&hooks),
            monitors: MonitorFactory::new(client.clone(), informers.clone(), resources, metrics.clone()),
            client,
            hook_metrics: MetricStorage::new(""),
            scheduler: Scheduler::new(clock.clone()),
            hooks,
            metrics,
            clock,
            informers,
            patcher,
            options,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Runs until stopped. A hook that runs then may end.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let stop = stop.child_token();
        let _guard = stop.clone().drop_guard();
        let mut running: JoinSet<Result<(), Error>> = JoinSet::new();
        http::spawn_servers(&self.shared, &mut running, &stop).await?;
        webhook::spawn_servers(&self.shared, &mut running, &stop).await?;
        let (informers, informers_stop) = (self.shared.informers.clone(), stop.clone());
        running.spawn(async move {
            let ended = informers.run(informers_stop).await;
            ended.map_err(|error| Error::Failed(error.to_string()))
        });
        self.shared.fill_main_queue();
        for queue in self.shared.queues.values() {
            let (shared, queue, stop) = (self.shared.clone(), queue.clone(), stop.clone());
            running.spawn(async move {
                shared.run_queue(&queue, &stop).await;
                Ok(())
            });
        }
        let (shared, schedule_stop) = (self.shared.clone(), stop.clone());
        running.spawn(async move {
            let fire = |hook: &Arc<Hook>, binding| shared.fire_schedule(hook, binding);
            shared.scheduler.run(fire, schedule_stop).await;
            Ok(())
        });
        let (shared, tick_stop) = (self.shared.clone(), stop.clone());
        running.spawn(async move {
            shared.measure(&tick_stop).await;
            Ok(())
        });
        let mut outcome = Ok(());
        while let Some(ended) = running.join_next().await {
            let ended = ended.unwrap_or_else(|error| Err(Error::Failed(error.to_string())));
            if ended.is_err() && outcome.is_ok() {
                outcome = ended;
                stop.cancel();
            }
        }
        outcome
    }

    /// The metrics of the hooks in the Prometheus text format.
    pub fn hook_metrics_text(&self) -> String {
        self.shared.hook_metrics.to_text()
    }
}

impl Shared {
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The first tasks: hooks that run at start, then monitors and schedules of each hook.
    fn fill_main_queue(&self) {
        let now = self.clock.now();
        let main = &self.queues[MAIN_QUEUE];
        let mut on_startup: Vec<&Arc<Hook>> = self.hooks.iter().collect();
        on_startup.retain(|hook| hook.config.on_startup.is_some());
        on_startup.sort_by_key(|hook| hook.config.on_startup);
        for hook in on_startup {
            let run = HookRun {
                binding_type: "onStartup",
                binding: String::new(),
                contexts: vec![BindingContext::on_startup()],
                allow_failure: false,
                monitors: Vec::new(),
                execute_on_synchronization: true,
            };
            main.push(Task::new(hook, TaskKind::HookRun(run), now));
        }
        for hook in &self.hooks {
            if !hook.config.kubernetes.is_empty() {
                main.push(Task::new(hook, TaskKind::EnableKubernetesBindings, now));
            }
            if !hook.config.schedules.is_empty() {
                main.push(Task::new(hook, TaskKind::EnableScheduleBindings, now));
            }
        }
    }

    fn fire_schedule(&self, hook: &Arc<Hook>, binding: usize) {
        let options = &hook.config.schedules[binding].options;
        let run = HookRun {
            binding_type: "schedule",
            binding: options.name.clone(),
            contexts: vec![BindingContext::new(options, Cause::Schedule)],
            allow_failure: options.allow_failure,
            monitors: Vec::new(),
            execute_on_synchronization: true,
        };
        tracing::debug!(
            hook = hook.name,
            binding = options.name,
            queue = options.queue,
            "queue task"
        );
        self.queues[&options.queue].push(Task::new(hook, TaskKind::HookRun(run), self.clock.now()));
    }

    async fn measure(&self, stop: &CancellationToken) {
        let mut ticks = 0_u64;
        loop {
            if (QUEUE_TICK.as_secs() * ticks).is_multiple_of(LIVE_TICK.as_secs()) {
                self.metrics
                    .add_counter(names::LIVE_TICKS, &LabelSet::default(), 1.0);
            }
            for queue in self.queues.values() {
                let labels = LabelSet::new([("queue", queue.name())]);
                self.metrics
                    .set_gauge(names::TASKS_QUEUE_LENGTH, &labels, queue.len() as f64);
            }
            ticks += 1;
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.clock.sleep(QUEUE_TICK) => {}
            }
        }
    }
}

/// The queues of all bindings, and the main queue.
fn queues(hooks: &[Arc<Hook>]) -> BTreeMap<String, Arc<Queue>> {
    let mut names = vec![MAIN_QUEUE.to_owned()];
    for hook in hooks {
        let kubernetes = hook.config.kubernetes.iter().map(|binding| &binding.options);
        let schedules = hook.config.schedules.iter().map(|binding| &binding.options);
        names.extend(kubernetes.chain(schedules).map(|options| options.queue.clone()));
    }
    let queues = names.into_iter().map(|name| {
        let queue = Arc::new(Queue::new(&name));
        (name, queue)
    });
    queues.collect()
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

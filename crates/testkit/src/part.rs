//! The parts of a cluster besides the server, each of which can be started and killed on its own.

use std::sync::Arc;

use setpoint_controllers::{Config, Resource, Resources, Served};
use setpoint_kinds::Kinds;
use setpoint_registry::Registry;
use setpoint_runtime::Manager;
use setpoint_runtime::reconcile::Error;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A certificate to publish. Nobody has its key.
const ROOT_CA: &str = include_str!("root_ca.pem");

/// Something that runs beside the server and talks to nobody but it.
#[derive(Debug, Clone)]
pub enum Part {
    /// A controller by its name, with or without `-controller`.
    Controller(&'static str),
    /// The scheduler.
    Scheduler,
    /// Simulated nodes.
    Nodes(setpoint_node::Config),
}

/// A part that runs. Dropping it kills it.
#[derive(Debug)]
pub struct RunningPart {
    task: JoinSet<Result<(), Error>>,
    stop: CancellationToken,
}

impl Part {
    /// So many simulated nodes, called `node-0` and so on.
    pub fn nodes(count: u32) -> Self {
        Self::Nodes(setpoint_node::Config::simulated("node", count))
    }

    /// The name under which it talks to the server.
    pub fn component(&self) -> &'static str {
        match self {
            Self::Controller(name) => named(name).name,
            Self::Scheduler => setpoint_scheduler::DEFAULT_NAME,
            Self::Nodes(_) => setpoint_node::agent::NAME,
        }
    }

    pub(crate) fn start(self, mut manager: Manager, registry: &Arc<Registry>) -> RunningPart {
        self.add_to(&mut manager, registry);
        RunningPart::of(manager)
    }

    /// Makes it one of the parts that a manager runs.
    pub(crate) fn add_to(self, manager: &mut Manager, registry: &Arc<Registry>) {
        let name = self.component();
        match self {
            Self::Controller(name) => {
                let (controller, config) = (named(name), config(registry));
                manager.add(controller.name, move |context, stop| {
                    controller.run(context, config, stop)
                });
            }
            Self::Scheduler => manager.add(name, |context, stop| {
                setpoint_scheduler::run(context, setpoint_scheduler::Config::default(), stop)
            }),
            Self::Nodes(config) => {
                manager.add(name, |context, stop| setpoint_node::run(context, config, stop))
            }
        }
    }
}

impl RunningPart {
    /// Runs a manager with what was added to it.
    pub fn of(manager: Manager) -> Self {
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        task.spawn(manager.run(stop.clone()));
        Self { task, stop }
    }

    /// Ends it where it stands, as a kill does.
    pub async fn kill(mut self) {
        self.task.shutdown().await;
    }

    /// Asks it to end and waits until it has.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.task.join_next().await {
            ended
                .expect("a part does not panic")
                .expect("a part that is asked to stop ends well");
        }
    }

    /// Whether it is still at work.
    pub fn is_running(&mut self) -> bool {
        self.task.try_join_next().is_none()
    }
}

fn named(name: &str) -> setpoint_controllers::Named {
    let mut own = setpoint_controllers::of_server().into_iter();
    if let Some(own) = own.find(|own| own.is_called(name)) {
        return own;
    }
    let found = setpoint_controllers::select(&[name]).expect("tests name controllers that exist");
    found.into_iter().next().expect("one name selects one controller")
}

fn config(registry: &Arc<Registry>) -> Config {
    let (changes, registry) = (registry.redefined(), registry.clone());
    Config {
        resources: Served::new(move || resources(&registry.kinds()), changes),
        root_ca: ROOT_CA.to_owned(),
        ..Config::default()
    }
}

/// Everything that these kinds serve, as controllers are told of it.
pub fn resources(kinds: &Kinds) -> Resources {
    let resource = |about: &setpoint_kinds::About| Resource {
        gvk: about.gvk.clone(),
        gvr: about.gvr.clone(),
        namespaced: about.is_namespaced(),
    };
    let kept = kinds.iter().filter(|kind| kind.about().is_home());
    kept.map(|kind| resource(kind.about())).collect()
}

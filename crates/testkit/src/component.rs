//! The components of a cluster besides the server, each of which can be started and killed on its own.

use std::sync::Arc;

use setpoint_controllers::{Config, Resource, Resources, ServedResources};
use setpoint_registry::Registry;
use setpoint_runtime::Manager;
use setpoint_runtime::reconcile::Error;
use setpoint_strategy::Kinds;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A CA certificate to publish. Its key was thrown away.
const ROOT_CA: &str = include_str!("root_ca.pem");

/// A component that runs beside the server and talks only to it.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "a test has a handful of components")]
pub enum Component {
    /// A controller by its name, with or without `-controller`.
    Controller(&'static str),
    /// The scheduler.
    Scheduler,
    /// Simulated nodes.
    Nodes(setpoint_node::Config),
}

/// A running component. Dropping it kills it.
#[derive(Debug)]
pub struct RunningComponent {
    task: JoinSet<Result<(), Error>>,
    stop: CancellationToken,
}

impl Component {
    /// This many simulated nodes, named `node-0` and so on.
    pub fn nodes(count: u32) -> Self {
        Self::nodes_named("node", count)
    }

    /// This many simulated nodes, named `<prefix>-0` and so on.
    pub fn nodes_named(prefix: &str, count: u32) -> Self {
        Self::Nodes(setpoint_node::Config::simulated(prefix, count))
    }

    /// The user name of its requests.
    pub fn component(&self) -> &'static str {
        match self {
            Self::Controller(name) => find_controller(name).name,
            Self::Scheduler => setpoint_scheduler::DEFAULT_NAME,
            Self::Nodes(_) => setpoint_node::agent::NAME,
        }
    }

    pub(crate) fn start(self, mut manager: Manager, registry: &Arc<Registry>) -> RunningComponent {
        self.add_to(&mut manager, registry);
        RunningComponent::of(manager)
    }

    /// Adds it to a manager.
    pub(crate) fn add_to(self, manager: &mut Manager, registry: &Arc<Registry>) {
        let name = self.component();
        match self {
            Self::Controller(name) => {
                let (controller, config) = (find_controller(name), config(registry));
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

impl RunningComponent {
    /// Runs a manager with everything added to it.
    pub fn of(manager: Manager) -> Self {
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        task.spawn(manager.run(stop.clone()));
        Self { task, stop }
    }

    /// Aborts it at its current await point, as a kill does.
    pub async fn kill(mut self) {
        self.task.shutdown().await;
    }

    /// Stops it gracefully and waits until it has ended.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.task.join_next().await {
            ended
                .expect("a component does not panic")
                .expect("a component that is stopped ends without an error");
        }
    }

    /// Whether it is still running.
    pub fn is_running(&mut self) -> bool {
        self.task.try_join_next().is_none()
    }
}

fn find_controller(name: &str) -> setpoint_controllers::ControllerDescriptor {
    let mut own = setpoint_controllers::api_server_controllers().into_iter();
    if let Some(own) = own.find(|own| own.has_name(name)) {
        return own;
    }
    let found = setpoint_controllers::select(&[name]).expect("tests name controllers that exist");
    found.into_iter().next().expect("one name selects one controller")
}

fn config(registry: &Arc<Registry>) -> Config {
    let (changes, registry) = (registry.kinds_changed(), registry.clone());
    Config {
        resources: ServedResources::new(move || resources(&registry.kinds()), changes),
        root_ca: ROOT_CA.to_owned(),
        ..Config::default()
    }
}

/// The resources that these kinds serve, in the form that controllers take.
pub fn resources(kinds: &Kinds) -> Resources {
    let resource = |about: &setpoint_strategy::KindInfo| Resource {
        gvk: about.gvk.clone(),
        gvr: about.gvr.clone(),
        namespaced: about.is_namespaced(),
    };
    let stored = kinds.iter().filter(|kind| kind.info().is_storage_version());
    stored.map(|kind| resource(kind.info())).collect()
}

//! The controllers, the scheduler and the nodes of a cluster, as `--controllers` and `--nodes` select them.

use std::sync::Arc;

use anyhow::Result;
use setpoint_api::{Clock, User};
use setpoint_node::server::LocalConnector;
use setpoint_registry::Registry;
use setpoint_runtime::{Caches, Client, Context, Manager};

use super::aggregation::Aggregation;
use super::elections::{self, Start};
use crate::args::Up;
use crate::nodes::{self, NodeChoice};

/// The prefix of the names of simulated nodes.
pub(super) const NODE_PREFIX: &str = "node";

/// Which of them run in this process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Selection {
    pub(super) scheduler: bool,
    /// Whether any controller runs.
    pub(super) controllers: bool,
}

impl Selection {
    /// What the value of `--controllers` selects.
    pub(super) fn new(controllers: &[String]) -> Self {
        let mut enabled = expand_selection(controllers);
        let scheduler = take_scheduler(&mut enabled);
        let selected = setpoint_controllers::select(&enabled);
        Self {
            scheduler,
            controllers: selected.is_ok_and(|selected| !selected.is_empty()),
        }
    }
}

/// Fails if the list names a controller that does not exist.
pub(super) fn check_selection(controllers: &[String]) -> Result<()> {
    let mut enabled = expand_selection(controllers);
    take_scheduler(&mut enabled);
    setpoint_controllers::select(&enabled)?;
    Ok(())
}

/// Whether the list selects the controller of this name.
pub(super) fn selects(controllers: &[String], name: &str) -> bool {
    let mut enabled = expand_selection(controllers);
    take_scheduler(&mut enabled);
    let selected = setpoint_controllers::select(&enabled).unwrap_or_default();
    selected.iter().any(|controller| controller.has_name(name))
}

/// The controller manager, on the server's own caches.
pub(super) fn manager(
    registry: &Arc<Registry>,
    aggregation: &Aggregation,
    clock: &Arc<dyn Clock>,
) -> Manager {
    let caches: Arc<dyn Caches> = registry.clone();
    let client = Client::new(
        aggregation.serve.clone(),
        Arc::new(User::component("system:setpoint")),
    );
    Manager::new(caches, client, clock.clone())
}

/// A copy of the context whose client acts as another user.
fn acting_as(user: &str, context: Context) -> Context {
    Context {
        client: context.client.as_user(User::component(user)),
        ..context
    }
}

/// The nodes of the cluster.
#[derive(Debug)]
pub(super) struct LocalNodes {
    /// How the API server connects to them.
    pub(super) connector: Option<LocalConnector>,
    /// What runs their containers and why, for the user.
    pub(super) description: String,
}

/// Adds the controllers and the scheduler that `--controllers` enables, and the API server's controllers.
pub(super) fn add_components(
    manager: &mut Manager,
    args: &Up,
    registry: &Arc<Registry>,
    config: &setpoint_controllers::Config,
    scheduler: setpoint_scheduler::Config,
) -> Result<()> {
    let mut enabled = expand_selection(&args.controllers);
    let is_shared = registry.store().is_replica();
    if take_scheduler(&mut enabled) {
        match is_shared {
            true => elections::add(
                manager,
                "kube-scheduler",
                registry.clone(),
                vec![elected_scheduler(scheduler)],
            ),
            false => add_scheduler(manager, scheduler),
        }
    }
    match is_shared {
        true => {
            let controllers = elected_controllers(&enabled, config)?;
            elections::add(manager, "kube-controller-manager", registry.clone(), controllers);
        }
        false => add_controllers(manager, &enabled, config)?,
    }
    add_api_server_controllers(manager, config);
    Ok(())
}

fn add_controllers(
    manager: &mut Manager,
    enabled: &[&str],
    config: &setpoint_controllers::Config,
) -> Result<()> {
    for controller in setpoint_controllers::select(enabled)? {
        let config = config.clone();
        manager.add(controller.name, move |context, stop| {
            controller.run(acting_as("system:kube-controller-manager", context), config, stop)
        });
    }
    Ok(())
}

/// The controllers, which can be started again.
fn elected_controllers(enabled: &[&str], config: &setpoint_controllers::Config) -> Result<Vec<Start>> {
    let controllers = setpoint_controllers::select(enabled)?.into_iter();
    let start = |controller: setpoint_controllers::ControllerDescriptor| -> Start {
        let config = config.clone();
        Arc::new(move |context, stop| {
            controller.run(
                acting_as("system:kube-controller-manager", context),
                config.clone(),
                stop,
            )
        })
    };
    Ok(controllers.map(start).collect())
}

/// The scheduler, which can be started again.
fn elected_scheduler(config: setpoint_scheduler::Config) -> Start {
    Arc::new(move |context, stop| {
        setpoint_scheduler::run(acting_as("system:kube-scheduler", context), config.clone(), stop)
    })
}

/// Adds the controllers of the API server itself. `--controllers` does not disable them: its responses depend on them.
fn add_api_server_controllers(manager: &mut Manager, config: &setpoint_controllers::Config) {
    for controller in setpoint_controllers::api_server_controllers() {
        let config = config.clone();
        manager.add(controller.name, move |context, stop| {
            controller.run(acting_as("system:apiserver", context), config, stop)
        });
    }
}

/// The value of `--controllers` in `setpoint_controllers::select`'s form: `none` is the empty list, and a list of only
/// disabled controllers enables all others.
pub(crate) fn expand_selection(list: &[String]) -> Vec<&str> {
    let mut names: Vec<&str> = list
        .iter()
        .map(String::as_str)
        .filter(|name| *name != "none")
        .collect();
    if !names.is_empty() && names.iter().all(|name| name.starts_with('-')) {
        names.push("*");
    }
    names
}

/// Removes `scheduler` from the list, since it is no controller of `setpoint_controllers`. Returns whether it is enabled.
fn take_scheduler(list: &mut Vec<&str>) -> bool {
    let is_scheduler = |name: &&str| name.strip_prefix('-').unwrap_or(name) == "scheduler";
    match list.iter().position(is_scheduler) {
        Some(at) => !list.remove(at).starts_with('-'),
        None => list.contains(&"*"),
    }
}

fn add_scheduler(manager: &mut Manager, config: setpoint_scheduler::Config) {
    manager.add("scheduler", move |context, stop| {
        setpoint_scheduler::run(acting_as("system:kube-scheduler", context), config, stop)
    });
}

/// Adds the nodes of the cluster.
pub(super) fn add_nodes(manager: &mut Manager, args: &Up, choice: NodeChoice) -> LocalNodes {
    nodes::add_containerd(manager, &args.node_flags);
    let connector = choice.config.map(|config| {
        let (config, connector) = config.with_local_connections();
        manager.add("nodes", move |context, stop| {
            setpoint_node::run(acting_as("system:nodes", context), config, stop)
        });
        connector
    });
    LocalNodes {
        connector,
        description: choice.description,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &[&str], expected: &[&str]) {
        let list: Vec<String> = list.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(expand_selection(&list), expected);
    }

    #[test]
    fn a_list_of_disabled_controllers_enables_all_others() {
        check(&["-namespace"], &["-namespace", "*"]);
        check(&["*", "-namespace"], &["*", "-namespace"]);
        check(&["replicaset"], &["replicaset"]);
    }

    #[test]
    fn none_enables_no_controller() {
        check(&["none"], &[]);
    }

    #[track_caller]
    fn check_scheduler(list: &[&str], expected: bool, rest: &[&str]) {
        let mut list = list.to_vec();
        assert_eq!((take_scheduler(&mut list), list.as_slice()), (expected, rest));
    }

    #[test]
    fn the_scheduler_is_one_name_of_the_list() {
        check_scheduler(&["*"], true, &["*"]);
        check_scheduler(&["-scheduler", "*"], false, &["*"]);
        check_scheduler(&["replicaset"], false, &["replicaset"]);
        check_scheduler(&["replicaset", "scheduler"], true, &["replicaset"]);
        check_scheduler(&[], false, &[]);
    }
}

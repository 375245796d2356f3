//! The scheduling plugins, one file each, and the list of them.
//!
//! To add one: a file here with a struct that implements the traits of its extension points and a `build` function, and a
//! line below.

mod args;
mod default_binder;
mod default_preemption;
mod device_classes;
mod dynamic_resources;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_resources_balanced_allocation;
mod node_resources_fit;
mod node_unschedulable;
mod node_volume_limits;
mod normalize;
mod pod_topology_spread;
mod priority_sort;
mod resource_allocation;
mod scheduling_gates;
mod storage;
mod taint_toleration;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;

pub use args::{PluginArgs, PluginError};
pub use normalize::default_normalize;

use setpoint_api::field::Errors;

use crate::framework::{Handle, Profile, Registration};
use crate::scheduler::DEFAULT_NAME;

/// A plugin that a profile may enable.
#[derive(Debug, Clone, Copy)]
pub struct Descriptor {
    /// The plugin's name in Kubernetes.
    pub name: &'static str,
    /// The weight of its scores in the default profile.
    pub weight: i64,
    pub build: fn(&PluginArgs, &Handle) -> Result<Registration, PluginError>,
}

const fn plugin(
    name: &'static str,
    weight: i64,
    build: fn(&PluginArgs, &Handle) -> Result<Registration, PluginError>,
) -> Descriptor {
    Descriptor { name, weight, build }
}

/// The plugins of the default profile, in its order (upstream: `apis/config/v1/default_plugins.go`).
pub const DEFAULT_PLUGINS: &[Descriptor] = &[
    plugin("SchedulingGates", 0, scheduling_gates::build),
    plugin("PrioritySort", 0, priority_sort::build),
    plugin("NodeName", 0, node_name::build),
    plugin("NodeUnschedulable", 0, node_unschedulable::build),
    plugin("TaintToleration", 3, taint_toleration::build),
    plugin("NodeAffinity", 2, node_affinity::build),
    plugin("NodePorts", 0, node_ports::build),
    plugin("NodeResourcesFit", 1, node_resources_fit::build),
    plugin("VolumeRestrictions", 0, volume_restrictions::build),
    plugin("NodeVolumeLimits", 0, node_volume_limits::build),
    plugin("VolumeBinding", 0, volume_binding::build),
    plugin("VolumeZone", 0, volume_zone::build),
    plugin("PodTopologySpread", 2, pod_topology_spread::build),
    plugin("InterPodAffinity", 2, inter_pod_affinity::build),
    plugin("DynamicResources", 2, dynamic_resources::build),
    plugin("DefaultPreemption", 0, default_preemption::build),
    plugin(
        "NodeResourcesBalancedAllocation",
        1,
        node_resources_balanced_allocation::build,
    ),
    plugin("ImageLocality", 1, image_locality::build),
    plugin("DefaultBinder", 0, default_binder::build),
    plugin("NodeDeclaredFeatures", 0, node_declared_features::build),
];

/// Checks of arguments, by plugin: their errors have the path in the configuration. All others are errors of `build`.
const ARGUMENT_CHECKS: &[(&str, ArgumentCheck)] = &[("DynamicResources", dynamic_resources::check_args)];

type ArgumentCheck = fn(&PluginArgs, &Errors);

/// Reports invalid arguments of the plugin.
pub(crate) fn check_args(plugin: &str, args: &PluginArgs, errors: &Errors) {
    let mut checks = ARGUMENT_CHECKS.iter();
    if let Some((_, check)) = checks.find(|(name, _)| *name == plugin) {
        check(args, errors);
    }
}

/// The default profile: all default plugins with their default arguments.
pub fn default_profile(handle: &Handle) -> Profile {
    let mut profile = Profile::new(DEFAULT_NAME);
    profile.waiting_pods = handle.waiting_pods().clone();
    for descriptor in DEFAULT_PLUGINS {
        let built = (descriptor.build)(&PluginArgs::default(), handle);
        let registration = built.expect("a plugin accepts its default arguments");
        profile.add(registration, descriptor.weight);
    }
    profile
}

//! The pod network, as a CNI plugin that container runtimes execute: routed veth pairs, without a bridge.
//!
//! A pod has an address of the node's range with a host mask, and one route: everything goes to a link-local gateway,
//! which is an address of the node's loopback interface. The node has a route to each pod through its veth. So packets
//! between pods are routed by the node, hairpin traffic needs no special mode, and nothing depends on bridge filters.
//! The runtime executes the program with the command in its environment and the configuration on standard input
//! ([specification](https://github.com/containernetworking/cni/blob/main/SPEC.md)); the same program serves as the plugin
//! `loopback`, which containerd 1.x executes for every pod.
//!
//! Start reading at [`plugin::run`], then [`network`] and [`ipam`].

#![warn(missing_docs)]

mod config;
mod error;
mod host_ports;
mod install;
mod ipam;
mod namespace;
mod netlink;
mod network;
mod plugin;

pub use config::{NetworkOptions, conflist};
pub use install::{install_config, install_plugins};
pub use plugin::{is_plugin_call, run};

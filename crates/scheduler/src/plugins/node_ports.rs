//! NodePorts: a pod fits only where its host ports are free.

use std::sync::Arc;

use super::{PluginArgs, PluginError};
use crate::framework::{
    ActionType, ClusterEvent, CycleState, Dependency, EnqueueExtensions, EventChange, EventResource, Filter,
    Handle, Plugin, PreFilter, PreFilterResult, QueueingHint, Registration, Rejection, Sign,
};
use crate::pod_info::{HostPort, PodInfo};
use crate::state::{ClusterState, NodeRef};

#[derive(Debug)]
pub(super) struct NodePorts;

pub(super) fn build(_: &PluginArgs, _: &Handle) -> Result<Registration, PluginError> {
    Ok(Registration {
        pre_filter: Some(Arc::new(NodePorts)),
        filter: Some(Arc::new(NodePorts)),
        enqueue: Some(Arc::new(NodePorts)),
        sign: Some(Arc::new(NodePorts)),
        ..Registration::new(NodePorts.name())
    })
}

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }
}

impl PreFilter for NodePorts {
    fn pre_filter(
        &self,
        _: &mut CycleState,
        pod: &PodInfo,
        _: &ClusterState,
    ) -> Result<PreFilterResult, Rejection> {
        Ok(match pod.spec.host_ports.is_empty() {
            true => PreFilterResult::Skip,
            false => PreFilterResult::AllNodes,
        })
    }
}

impl Filter for NodePorts {
    fn filter(&self, _: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> Result<(), Rejection> {
        match conflict(&pod.spec.host_ports, node.host_ports()) {
            false => Ok(()),
            true => Err(Rejection::unschedulable(
                "node(s) didn't have free ports for the requested pod ports",
            )),
        }
    }
}

impl EnqueueExtensions for NodePorts {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        vec![
            ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE),
            ClusterEvent::new(EventResource::Node, ActionType::ADD),
        ]
    }

    fn queueing_hint(&self, pod: &PodInfo, _: ClusterEvent, change: &EventChange) -> QueueingHint {
        match change {
            EventChange::Pod {
                old: Some(deleted), ..
            } => QueueingHint::queue_if(conflict(&pod.spec.host_ports, &deleted.spec.host_ports)),
            _ => QueueingHint::Queue,
        }
    }
}

impl Sign for NodePorts {
    fn dependency(&self, _: &PodInfo, _: &ClusterState) -> Dependency {
        Dependency::Node
    }
}

/// Whether any of the ports is in use.
fn conflict(ports: &[HostPort], used: &[HostPort]) -> bool {
    ports
        .iter()
        .any(|port| used.iter().any(|other| port.conflicts_with(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port as `ip:port/protocol`.
    fn port(text: &str) -> HostPort {
        let (ip, rest) = text.split_once(':').unwrap();
        let (port, protocol) = rest.split_once('/').unwrap();
        HostPort {
            ip: ip.into(),
            protocol: protocol.into(),
            port: port.parse().unwrap(),
        }
    }

    #[track_caller]
    fn check(requested: &str, used: &str, expected: bool) {
        assert_eq!(conflict(&[port(requested)], &[port(used)]), expected);
    }

    #[test]
    fn a_port_conflicts_on_the_same_address_and_on_all_addresses() {
        check("0.0.0.0:80/TCP", "0.0.0.0:80/TCP", true);
        check("0.0.0.0:80/TCP", "127.0.0.1:80/TCP", true);
        check("127.0.0.1:80/TCP", "0.0.0.0:80/TCP", true);
        check("127.0.0.1:80/TCP", "127.0.0.2:80/TCP", false);
        check("0.0.0.0:80/TCP", "0.0.0.0:80/UDP", false);
        check("0.0.0.0:80/TCP", "0.0.0.0:81/TCP", false);
    }
}

//! The Node object of a machine: pure.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    DaemonEndpoint, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Serialize;

use crate::config::Machine;
use crate::eviction::Pressure;
use crate::node_health::NodeHealth;
use crate::pod::status::time;

/// A status that does not change is written this often.
const HEARTBEAT_INTERVAL: SignedDuration = SignedDuration::from_mins(5);

/// The conditions of a healthy node: type, whether it holds, reason, message.
const CONDITIONS: [(&str, bool, &str, &str); 4] = [
    (
        "MemoryPressure",
        false,
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    (
        "DiskPressure",
        false,
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
    ),
    (
        "PIDPressure",
        false,
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
    ),
    ("Ready", true, "KubeletReady", "kubelet is posting ready status"),
];

/// A Node as an agent registers it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewNode {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata,
    status: NodeStatus,
}

#[derive(Debug, Serialize)]
struct Metadata {
    name: String,
    labels: BTreeMap<String, String>,
}

/// The Node that a machine registers.
pub(crate) fn node(now: Timestamp, machine: &Machine, health: &NodeHealth) -> NewNode {
    NewNode {
        api_version: "v1",
        kind: "Node",
        metadata: Metadata {
            name: machine.name.to_string(),
            labels: labels(machine),
        },
        status: status(now, machine, &NodeStatus::default(), health),
    }
}

/// The status that a machine reports. Extended resources that other writers added to the capacity stay.
pub(crate) fn status(now: Timestamp, machine: &Machine, old: &NodeStatus, health: &NodeHealth) -> NodeStatus {
    NodeStatus {
        capacity: Some(amounts(&machine.capacity, old.capacity.as_ref())),
        // Extended resources added to the capacity are allocatable at once.
        allocatable: Some(amounts(machine.allocatable(), old.capacity.as_ref())),
        conditions: Some(conditions(now, old, health)),
        addresses: Some(addresses(machine)),
        daemon_endpoints: machine.port.map(daemon_endpoints),
        node_info: Some(system_info(machine, health)),
        images: health.images.clone().or_else(|| old.images.clone()),
        ..old.clone()
    }
}

/// Where the API server reaches the agent.
fn daemon_endpoints(port: u16) -> NodeDaemonEndpoints {
    NodeDaemonEndpoints {
        kubelet_endpoint: Some(DaemonEndpoint { port: port.into() }),
    }
}

/// Whether a status is written: it changed, or the heartbeat of its conditions is old.
pub(crate) fn is_due(now: Timestamp, old: &NodeStatus, new: &NodeStatus) -> bool {
    let without_heartbeats = |status: &NodeStatus| {
        let mut status = status.clone();
        for condition in status.conditions.iter_mut().flatten() {
            condition.last_heartbeat_time = None;
        }
        status
    };
    let heartbeats = old
        .conditions
        .iter()
        .flatten()
        .filter_map(|one| one.last_heartbeat_time.as_ref());
    let last = heartbeats.map(|heartbeat| heartbeat.0).min();
    let is_old = last.is_none_or(|last| now.duration_since(last) >= HEARTBEAT_INTERVAL);
    is_old || without_heartbeats(old) != without_heartbeats(new)
}

fn labels(machine: &Machine) -> BTreeMap<String, String> {
    let mut labels = machine.labels.clone();
    let own = [
        ("kubernetes.io/hostname", machine.name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture()),
    ];
    for (name, value) in own {
        labels.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    labels
}

fn amounts(
    own: &BTreeMap<String, String>,
    old: Option<&BTreeMap<String, Quantity>>,
) -> BTreeMap<String, Quantity> {
    let mut amounts = old.cloned().unwrap_or_default();
    amounts.extend(
        own.iter()
            .map(|(name, amount)| (name.clone(), Quantity(amount.clone()))),
    );
    amounts
}

fn conditions(now: Timestamp, old: &NodeStatus, health: &NodeHealth) -> Vec<NodeCondition> {
    let old = old.conditions.as_deref().unwrap_or_default();
    let is_own = |one: &NodeCondition| CONDITIONS.iter().any(|(type_, ..)| one.type_ == *type_);
    let mut conditions: Vec<_> = old.iter().filter(|one| !is_own(one)).cloned().collect();
    for (type_, holds, reason, message) in CONDITIONS {
        let (holds, reason, message) = match &health.not_ready {
            Some(not_ready) if type_ == "Ready" => (false, "KubeletNotReady", not_ready.as_str()),
            _ => match health.pressures.iter().find(|one| one.to_string() == type_) {
                Some(pressure) => pressure_state(*pressure),
                None => (holds, reason, message),
            },
        };
        let status = if holds { "True" } else { "False" };
        let same = |one: &&NodeCondition| one.type_ == type_ && one.status == status;
        let since = old
            .iter()
            .find(same)
            .and_then(|one| one.last_transition_time.clone());
        conditions.push(NodeCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            last_heartbeat_time: Some(time(now)),
            last_transition_time: since.or(Some(time(now))),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
        });
    }
    conditions
}

/// A condition of pressure that holds, with its reason and message.
fn pressure_state(pressure: Pressure) -> (bool, &'static str, &'static str) {
    let (reason, message) = match pressure {
        Pressure::Memory => (
            "KubeletHasInsufficientMemory",
            "kubelet has insufficient memory available",
        ),
        Pressure::Disk => ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        Pressure::Pid => (
            "KubeletHasInsufficientPID",
            "kubelet has insufficient PID available",
        ),
    };
    (true, reason, message)
}

fn addresses(machine: &Machine) -> Vec<NodeAddress> {
    let own = machine.addresses.iter();
    let own = own.map(|ip| address("InternalIP", &ip.to_string()));
    own.chain([address("Hostname", &machine.name)]).collect()
}

fn address(type_: &str, address: &str) -> NodeAddress {
    NodeAddress {
        type_: type_.to_owned(),
        address: address.to_owned(),
    }
}

fn system_info(machine: &Machine, health: &NodeHealth) -> NodeSystemInfo {
    let version = concat!("v1.37.0-setpoint.", env!("CARGO_PKG_VERSION"));
    let system = machine.system.clone();
    NodeSystemInfo {
        architecture: architecture().to_owned(),
        operating_system: "linux".to_owned(),
        os_image: system.os_image,
        kernel_version: system.kernel_version,
        container_runtime_version: health.runtime_version.clone().unwrap_or(system.container_runtime),
        kubelet_version: version.to_owned(),
        machine_id: system.machine_id,
        system_uuid: system.system_uuid,
        boot_id: system.boot_id,
        ..NodeSystemInfo::default()
    }
}

/// The architecture, in Go's names as Kubernetes uses them.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn shown(status: &NodeStatus) -> Value {
        serde_json::to_value(status).unwrap()
    }

    #[test]
    fn a_machine_registers_as_a_ready_node_with_its_amounts() {
        let node = serde_json::to_value(node(
            at(0),
            &Machine::new("n1", 3).with("pods", "20"),
            &NodeHealth::default(),
        ))
        .unwrap();
        assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "n1");
        assert_eq!(node["status"]["allocatable"]["pods"], "20");
        assert_eq!(node["status"]["capacity"]["cpu"], "32");
        let ready = &node["status"]["conditions"][3];
        assert_eq!(
            (&ready["type"], &ready["status"]),
            (&json!("Ready"), &json!("True"))
        );
        assert_eq!(node["status"]["addresses"][0]["address"], "10.16.0.4");
    }

    #[test]
    fn amounts_that_others_added_survive_a_report() {
        let machine = Machine::new("n1", 0);
        let mut old = status(at(0), &machine, &NodeStatus::default(), &NodeHealth::default());
        let added = ("example.com/gpu".to_owned(), Quantity("3".to_owned()));
        old.capacity.as_mut().unwrap().extend([added]);
        let new = shown(&status(at(300), &machine, &old, &NodeHealth::default()));
        assert_eq!(new["capacity"]["example.com/gpu"], "3");
        assert_eq!(new["allocatable"]["example.com/gpu"], "3");
    }

    #[test]
    fn a_node_that_runs_out_of_something_reports_it() {
        let health = NodeHealth {
            pressures: [Pressure::Disk].into(),
            ..NodeHealth::default()
        };
        let machine = Machine::new("n1", 0);
        let status = shown(&status(at(0), &machine, &NodeStatus::default(), &health));
        let shown = |index: usize| {
            let condition = &status["conditions"][index];
            format!("{} {}", condition["type"], condition["status"]).replace('"', "")
        };
        assert_eq!(shown(0), "MemoryPressure False");
        assert_eq!(shown(1), "DiskPressure True");
        assert_eq!(status["conditions"][1]["reason"], "KubeletHasDiskPressure");
    }

    #[test]
    fn a_report_moves_the_heartbeat_and_not_the_transition() {
        let machine = Machine::new("n1", 0);
        let old = status(at(0), &machine, &NodeStatus::default(), &NodeHealth::default());
        let ready = &shown(&status(at(300), &machine, &old, &NodeHealth::default()))["conditions"][3];
        assert_eq!(ready["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(ready["lastHeartbeatTime"], "1970-01-01T00:05:00Z");
    }

    #[test]
    fn a_status_is_written_when_it_changed_or_after_five_minutes() {
        let machine = Machine::new("n1", 0);
        let old = status(at(0), &machine, &NodeStatus::default(), &NodeHealth::default());
        let same = |second| status(at(second), &machine, &old, &NodeHealth::default());
        assert!(!is_due(at(10), &old, &same(10)));
        assert!(is_due(at(300), &old, &same(300)));
        let health = NodeHealth {
            not_ready: Some("container runtime is down".to_owned()),
            ..NodeHealth::default()
        };
        let changed = status(at(10), &machine, &old, &health);
        assert!(is_due(at(10), &old, &changed));
        let ready = &shown(&changed)["conditions"][3];
        assert_eq!(
            (&ready["status"], &ready["reason"]),
            (&json!("False"), &json!("KubeletNotReady"))
        );
        assert_eq!(ready["message"], "container runtime is down");
    }
}

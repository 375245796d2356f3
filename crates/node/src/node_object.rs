//! The Node object of a machine: pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Serialize;

use crate::config::Machine;
use crate::status::time;

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
pub(crate) fn node(now: Timestamp, machine: &Machine) -> NewNode {
    NewNode {
        api_version: "v1",
        kind: "Node",
        metadata: Metadata {
            name: machine.name.to_string(),
            labels: labels(machine),
        },
        status: status(now, machine, &NodeStatus::default()),
    }
}

/// The status that a machine reports. Extended resources that other writers added to the capacity stay.
pub(crate) fn status(now: Timestamp, machine: &Machine, old: &NodeStatus) -> NodeStatus {
    NodeStatus {
        capacity: Some(amounts(machine, old.capacity.as_ref())),
        // Extended resources added to the capacity are allocatable at once.
        allocatable: Some(amounts(machine, old.capacity.as_ref())),
        conditions: Some(conditions(now, old)),
        addresses: Some(vec![
            address("InternalIP", &machine.address().to_string()),
            address("Hostname", &machine.name),
        ]),
        node_info: Some(system_info(machine)),
        ..old.clone()
    }
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

fn amounts(machine: &Machine, old: Option<&BTreeMap<String, Quantity>>) -> BTreeMap<String, Quantity> {
    let mut amounts = old.cloned().unwrap_or_default();
    let own = machine.capacity.iter();
    amounts.extend(own.map(|(name, amount)| (name.clone(), Quantity(amount.clone()))));
    amounts
}

fn conditions(now: Timestamp, old: &NodeStatus) -> Vec<NodeCondition> {
    let old = old.conditions.as_deref().unwrap_or_default();
    let is_own = |one: &NodeCondition| CONDITIONS.iter().any(|(type_, ..)| one.type_ == *type_);
    let mut conditions: Vec<_> = old.iter().filter(|one| !is_own(one)).cloned().collect();
    for (type_, holds, reason, message) in CONDITIONS {
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

fn address(type_: &str, address: &str) -> NodeAddress {
    NodeAddress {
        type_: type_.to_owned(),
        address: address.to_owned(),
    }
}

fn system_info(machine: &Machine) -> NodeSystemInfo {
    let version = concat!("v1.37.0-setpoint.", env!("CARGO_PKG_VERSION"));
    NodeSystemInfo {
        architecture: architecture().to_owned(),
        operating_system: "linux".to_owned(),
        os_image: "Simulated".to_owned(),
        kernel_version: "simulated".to_owned(),
        container_runtime_version: concat!("simulated://", env!("CARGO_PKG_VERSION")).to_owned(),
        kubelet_version: version.to_owned(),
        machine_id: machine.name.to_string(),
        system_uuid: machine.name.to_string(),
        boot_id: machine.name.to_string(),
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
        let node = serde_json::to_value(node(at(0), &Machine::new("n1", 3).with("pods", "20"))).unwrap();
        assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "n1");
        assert_eq!(node["status"]["allocatable"]["pods"], "20");
        assert_eq!(node["status"]["capacity"]["cpu"], "32");
        let ready = &node["status"]["conditions"][3];
        assert_eq!(
            (&ready["type"], &ready["status"]),
            (&json!("Ready"), &json!("True"))
        );
        assert_eq!(node["status"]["addresses"][0]["address"], "10.0.0.4");
    }

    #[test]
    fn amounts_that_others_added_survive_a_report() {
        let machine = Machine::new("n1", 0);
        let mut old = status(at(0), &machine, &NodeStatus::default());
        let added = ("example.com/gpu".to_owned(), Quantity("3".to_owned()));
        old.capacity.as_mut().unwrap().extend([added]);
        let new = shown(&status(at(300), &machine, &old));
        assert_eq!(new["capacity"]["example.com/gpu"], "3");
        assert_eq!(new["allocatable"]["example.com/gpu"], "3");
    }

    #[test]
    fn a_report_moves_the_heartbeat_and_not_the_transition() {
        let machine = Machine::new("n1", 0);
        let old = status(at(0), &machine, &NodeStatus::default());
        let ready = &shown(&status(at(300), &machine, &old))["conditions"][3];
        assert_eq!(ready["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(ready["lastHeartbeatTime"], "1970-01-01T00:05:00Z");
    }
}

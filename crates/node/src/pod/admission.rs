//! [`Admission`]: whether a node can run a pod that is bound to it. The scheduler normally ensures it; pods that were
//! bound by others, or by two schedulers at once, are rejected here, as the kubelet does.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1;
use parking_lot::Mutex;
use setpoint_api::Quantity;

use super::bound_pod::{BoundPod, ContainerKind, is_sidecar};
use super::record::PodFailure;
use super::resize::ResizeState;
use crate::config::Machine;
use crate::container_config::pod_resources::pod_requests;

/// Kernel parameters that a pod may set (upstream: `SafeSysctlAllowlist`), and the namespace that they belong to.
const SAFE_SYSCTLS: [(&str, SysctlNamespace); 12] = [
    ("kernel.shm_rmid_forced", SysctlNamespace::Ipc),
    ("net.ipv4.ip_local_port_range", SysctlNamespace::Net),
    ("net.ipv4.ip_local_reserved_ports", SysctlNamespace::Net),
    ("net.ipv4.ip_unprivileged_port_start", SysctlNamespace::Net),
    ("net.ipv4.ping_group_range", SysctlNamespace::Net),
    ("net.ipv4.tcp_fin_timeout", SysctlNamespace::Net),
    ("net.ipv4.tcp_keepalive_intvl", SysctlNamespace::Net),
    ("net.ipv4.tcp_keepalive_probes", SysctlNamespace::Net),
    ("net.ipv4.tcp_keepalive_time", SysctlNamespace::Net),
    ("net.ipv4.tcp_rmem", SysctlNamespace::Net),
    ("net.ipv4.tcp_syncookies", SysctlNamespace::Net),
    ("net.ipv4.tcp_wmem", SysctlNamespace::Net),
];

/// The namespace of a kernel parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SysctlNamespace {
    Ipc,
    Net,
}

/// The pods that are admitted to each node of the agent.
#[derive(Debug, Default)]
pub(crate) struct Admission(Mutex<HashMap<String, NodeAllocation>>);

/// What the pods of one node use.
#[derive(Debug, Default)]
struct NodeAllocation {
    /// By uid.
    pods: HashMap<String, PodDemand>,
    /// The sums of the pods' amounts.
    used: BTreeMap<String, i64>,
}

/// What a pod needs of its node.
#[derive(Debug, Clone, Default)]
struct PodDemand {
    /// In thousandths for cpu.
    amounts: BTreeMap<String, i64>,
    ports: Vec<HostPort>,
}

/// A port of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostPort {
    protocol: String,
    address: String,
    port: i32,
}

impl Admission {
    /// Admits a new pod, or returns why the node cannot run it.
    pub(crate) fn admit(&self, pod: &BoundPod, machine: &Machine) -> Result<(), PodFailure> {
        let mut nodes = self.0.lock();
        let node = nodes.entry(machine.name.to_string()).or_default();
        if node.pods.contains_key(pod.uid()) {
            return Ok(());
        }
        check_sysctls(pod.spec())?;
        let demand = demand(pod);
        node.check(&demand, machine)?;
        node.add(pod.uid(), demand);
        Ok(())
    }

    /// Grants what the pod requests now instead of what it had, or returns why it must wait.
    pub(crate) fn resize(&self, pod: &BoundPod, machine: &Machine) -> Result<(), ResizeState> {
        let mut nodes = self.0.lock();
        let node = nodes.entry(machine.name.to_string()).or_default();
        let demand = demand(pod);
        let old = node.remove(pod.uid());
        if let Err(PodFailure { message, .. }) = node.check(&demand, machine) {
            node.add(pod.uid(), old.unwrap_or_default());
            return Err(ResizeState::Deferred { message });
        }
        node.add(pod.uid(), demand);
        Ok(())
    }

    /// Adds a pod that runs already.
    pub(crate) fn add(&self, pod: &BoundPod, machine: &Machine) {
        let mut nodes = self.0.lock();
        let node = nodes.entry(machine.name.to_string()).or_default();
        if !node.pods.contains_key(pod.uid()) {
            node.add(pod.uid(), demand(pod));
        }
    }

    /// Removes a pod that has ended.
    pub(crate) fn remove(&self, node: &str, uid: &str) {
        if let Some(node) = self.0.lock().get_mut(node) {
            node.remove(uid);
        }
    }
}

impl NodeAllocation {
    fn add(&mut self, uid: &str, demand: PodDemand) {
        for (name, amount) in &demand.amounts {
            *self.used.entry(name.clone()).or_default() += amount;
        }
        self.pods.insert(uid.to_owned(), demand);
    }

    fn remove(&mut self, uid: &str) -> Option<PodDemand> {
        let demand = self.pods.remove(uid)?;
        for (name, amount) in &demand.amounts {
            *self.used.entry(name.clone()).or_default() -= amount;
        }
        Some(demand)
    }

    fn check(&self, demand: &PodDemand, machine: &Machine) -> Result<(), PodFailure> {
        // In the order in which the scheduler's check reports them.
        let first = ["pods", "cpu", "memory", "ephemeral-storage"];
        let others = demand
            .amounts
            .keys()
            .map(String::as_str)
            .filter(|name| !first.contains(name));
        for name in first.into_iter().chain(others) {
            // Resources that the node does not have are not the node's.
            let capacity = machine
                .allocatable()
                .get(name)
                .and_then(|amount| amount.parse().ok());
            let Some(capacity) = capacity.map(|amount| value(name, amount)) else {
                continue;
            };
            let requested = demand.amounts.get(name).copied().unwrap_or(0);
            let used = self.used.get(name).copied().unwrap_or(0);
            if requested > 0 && requested > capacity - used {
                return Err(rejection(
                    &format!("OutOf{name}"),
                    &format!(
                        "Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: \
                         {capacity}"
                    ),
                ));
            }
        }
        let taken = self.pods.values().flat_map(|pod| &pod.ports);
        let conflicts = |port: &HostPort| demand.ports.iter().any(|own| own.conflicts(port));
        if taken.into_iter().any(conflicts) {
            let message =
                "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
            return Err(rejection("NodePorts", message));
        }
        Ok(())
    }
}

impl HostPort {
    fn conflicts(&self, other: &Self) -> bool {
        let is_any = |address: &str| address == "0.0.0.0";
        let same_address = self.address == other.address || is_any(&self.address) || is_any(&other.address);
        self.port == other.port && self.protocol == other.protocol && same_address
    }
}

/// Rejects a pod with kernel parameters that are not safe, or that are the host's with its namespaces.
fn check_sysctls(spec: &v1::PodSpec) -> Result<(), PodFailure> {
    let context = spec.security_context.as_ref();
    let sysctls = context.and_then(|context| context.sysctls.as_ref());
    for sysctl in sysctls.into_iter().flatten() {
        let name = normalize_sysctl(&sysctl.name);
        let safe = SAFE_SYSCTLS.iter().find(|(safe, _)| *safe == name);
        let reason = match safe.map(|(_, namespace)| namespace) {
            None => "not allowlisted",
            Some(SysctlNamespace::Ipc) if spec.host_ipc == Some(true) => "not allowed with host IPC enabled",
            Some(SysctlNamespace::Net) if spec.host_network == Some(true) => {
                "not allowed with host Net enabled"
            }
            Some(_) => continue,
        };
        return Err(rejection(
            "SysctlForbidden",
            &format!("forbidden sysctl: {name:?} {reason}"),
        ));
    }
    Ok(())
}

/// The name with dots as separators. Both forms are valid; in that with slashes a dot is part of a name.
fn normalize_sysctl(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name[at..].starts_with('/') => {
            let swap = |character| match character {
                '/' => '.',
                '.' => '/',
                other => other,
            };
            name.chars().map(swap).collect()
        }
        _ => name.to_owned(),
    }
}

fn rejection(reason: &str, message: &str) -> PodFailure {
    PodFailure {
        reason: reason.to_owned(),
        message: message.to_owned(),
        termination: None,
    }
}

fn demand(pod: &BoundPod) -> PodDemand {
    let requests = pod_requests(&pod.object).into_iter();
    let amounts = requests.map(|(name, amount)| {
        let amount = value(&name, amount);
        (name, amount)
    });
    let init = pod.containers(ContainerKind::Init).iter();
    let sidecars = init.filter(|container| is_sidecar(container));
    let containers = sidecars.chain(pod.containers(ContainerKind::Regular));
    PodDemand {
        amounts: amounts.chain([("pods".to_owned(), 1)]).collect(),
        ports: containers.flat_map(host_ports).collect(),
    }
}

fn host_ports(container: &v1::Container) -> Vec<HostPort> {
    let ports = container.ports.iter().flatten();
    let host_port = |port: &v1::ContainerPort| {
        Some(HostPort {
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            address: port
                .host_ip
                .clone()
                .filter(|ip| !ip.is_empty())
                .unwrap_or_else(|| "0.0.0.0".to_owned()),
            port: port.host_port.filter(|port| *port > 0)?,
        })
    };
    ports.filter_map(host_port).collect()
}

/// The amount as the kubelet's messages have it.
fn value(name: &str, amount: Quantity) -> i64 {
    match name {
        "cpu" => amount.milli_value(),
        _ => amount.value(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str, container: Value) -> BoundPod {
        let mut container = container;
        container["name"] = json!("c");
        let pod = json!({"metadata": {"uid": uid}, "spec": {"containers": [container]}});
        BoundPod::new(serde_json::from_value(pod).unwrap())
    }

    /// Admits the first pod, and then the second to the same node with one cpu and two pods.
    #[track_caller]
    fn check(first: Value, second: Value, expected: Result<(), (&str, &str)>) {
        let machine = Machine::new("n", 0).with("cpu", "1").with("pods", "2");
        let admission = Admission::default();
        assert_eq!(admission.admit(&pod("a", first), &machine), Ok(()));
        let admitted = admission.admit(&pod("b", second), &machine);
        let shown = admitted
            .as_ref()
            .map_err(|why| (why.reason.as_str(), why.message.as_str()));
        assert_eq!(shown.copied(), expected);
    }

    fn cpu(amount: &str) -> Value {
        json!({"resources": {"requests": {"cpu": amount}}})
    }

    #[test]
    fn a_pod_that_does_not_fit_is_rejected() {
        check(cpu("500m"), cpu("500m"), Ok(()));
        let message = "Node didn't have enough resource: cpu, requested: 600, used: 500, capacity: 1000";
        check(cpu("500m"), cpu("600m"), Err(("OutOfcpu", message)));
        check(
            cpu("1"),
            json!({"resources": {"requests": {"example.com/other": "1"}}}),
            Ok(()),
        );
    }

    #[test]
    fn a_port_of_the_host_is_used_once() {
        let port =
            |port: i32, ip: &str| json!({"ports": [{"containerPort": 1, "hostPort": port, "hostIP": ip}]});
        let message =
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
        check(port(80, ""), port(80, "127.0.0.1"), Err(("NodePorts", message)));
        check(port(80, "10.0.0.1"), port(80, "127.0.0.1"), Ok(()));
        check(port(80, ""), port(81, ""), Ok(()));
    }

    #[test]
    fn a_port_of_the_host_that_a_sidecar_has_is_used_too() {
        let ports = json!([{"containerPort": 1, "hostPort": 80}]);
        let sidecar = json!({"name": "s", "restartPolicy": "Always", "ports": ports});
        let first =
            json!({"metadata": {"uid": "a"}, "spec": {"containers": [], "initContainers": [sidecar]}});
        let first = BoundPod::new(serde_json::from_value(first).unwrap());
        let (admission, machine) = (Admission::default(), Machine::new("n", 0));
        assert_eq!(admission.admit(&first, &machine), Ok(()));
        let rejected = admission
            .admit(&pod("b", json!({"ports": ports})), &machine)
            .unwrap_err();
        assert_eq!(rejected.reason, "NodePorts");
    }

    #[track_caller]
    fn check_sysctl(spec: Value, name: &str, expected: Option<&str>) {
        let mut spec = spec;
        spec["containers"] = json!([]);
        spec["securityContext"] = json!({"sysctls": [{"name": name, "value": "1"}]});
        let rejected = check_sysctls(&serde_json::from_value(spec).unwrap()).err();
        let shown = rejected.map(|why| format!("{}: {}", why.reason, why.message));
        assert_eq!(shown.as_deref(), expected);
    }

    #[test]
    fn kernel_parameters_are_those_that_are_safe() {
        check_sysctl(json!({}), "kernel.shm_rmid_forced", None);
        check_sysctl(json!({}), "net/ipv4/tcp_syncookies", None);
        check_sysctl(
            json!({}),
            "kernel.msgmax",
            Some("SysctlForbidden: forbidden sysctl: \"kernel.msgmax\" not allowlisted"),
        );
        check_sysctl(
            json!({"hostNetwork": true}),
            "net.ipv4.tcp_rmem",
            Some(
                "SysctlForbidden: forbidden sysctl: \"net.ipv4.tcp_rmem\" not allowed with host Net enabled",
            ),
        );
    }

    #[track_caller]
    fn check_resize(others: &str, requested: &str, expected: Option<&str>) {
        let (admission, machine) = (Admission::default(), Machine::new("n", 0).with("cpu", "4"));
        admission.add(&pod("a", cpu("1")), &machine);
        admission.add(&pod("b", cpu(others)), &machine);
        let message = match admission.resize(&pod("a", cpu(requested)), &machine) {
            Err(ResizeState::Deferred { message }) => Some(message),
            _ => None,
        };
        assert_eq!(message.as_deref(), expected);
    }

    #[test]
    fn a_resize_is_granted_or_deferred() {
        check_resize("2", "2", None);
        let message = "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000";
        check_resize("2", "3", Some(message));
    }

    #[test]
    fn a_pod_that_ends_frees_what_it_used() {
        let (admission, machine) = (Admission::default(), Machine::new("n", 0).with("cpu", "1"));
        admission.add(&pod("a", cpu("1")), &machine);
        assert!(admission.admit(&pod("b", cpu("1")), &machine).is_err());
        admission.remove("n", "a");
        assert_eq!(admission.admit(&pod("b", cpu("1")), &machine), Ok(()));
    }
}

//! [`BoundPod`]: a decoded pod that is bound to a node of the agent, with its containers in one form.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use setpoint_api::Key;

/// A decoded pod. Missing parts are empty, so that readers need no further checks.
#[derive(Debug)]
pub(crate) struct BoundPod {
    pub(crate) key: Key,
    /// The whole object.
    pub(crate) object: v1::Pod,
    /// The ephemeral containers in the form of the others, as the kubelet treats them.
    ephemeral: Vec<v1::Container>,
}

/// The three lists of containers in a pod spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ContainerKind {
    /// Run one after the other before the regular ones; sidecars among them keep running.
    Init,
    /// The containers that the pod is for.
    Regular,
    /// Added to a running pod for debugging, and never restarted.
    Ephemeral,
}

/// A container by its list and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContainerIndex {
    pub(crate) kind: ContainerKind,
    pub(crate) index: usize,
}

/// The grace period of a pod that has none.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

// === impl BoundPod ===

impl BoundPod {
    pub(crate) fn new(mut object: v1::Pod) -> Self {
        let spec = object.spec.get_or_insert_default();
        let ephemeral = spec.ephemeral_containers.iter().flatten();
        let ephemeral = ephemeral.map(as_container).collect();
        object.status.get_or_insert_default();
        let meta = &object.metadata;
        let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
        Self {
            key: Key::new(namespace.unwrap_or_default(), name.unwrap_or_default()),
            object,
            ephemeral,
        }
    }

    pub(crate) fn spec(&self) -> &v1::PodSpec {
        let spec = self.object.spec.as_ref();
        spec.expect("the constructor inserts a spec")
    }

    pub(crate) fn status(&self) -> &v1::PodStatus {
        let status = self.object.status.as_ref();
        status.expect("the constructor inserts a status")
    }

    pub(crate) fn uid(&self) -> &str {
        self.object.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(crate) fn containers(&self, kind: ContainerKind) -> &[v1::Container] {
        match kind {
            ContainerKind::Init => self.spec().init_containers.as_deref().unwrap_or_default(),
            ContainerKind::Regular => &self.spec().containers,
            ContainerKind::Ephemeral => &self.ephemeral,
        }
    }

    pub(crate) fn container(&self, at: ContainerIndex) -> &v1::Container {
        &self.containers(at.kind)[at.index]
    }

    /// The container of this name in any of the lists.
    pub(crate) fn find_container(&self, name: &str) -> Option<(ContainerKind, &v1::Container)> {
        let kinds = [
            ContainerKind::Regular,
            ContainerKind::Init,
            ContainerKind::Ephemeral,
        ];
        kinds.into_iter().find_map(|kind| {
            let mut containers = self.containers(kind).iter();
            Some((kind, containers.find(|one| one.name == name)?))
        })
    }

    pub(crate) fn uses_host_network(&self) -> bool {
        self.spec().host_network == Some(true)
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// Whether the API has a terminal phase for it.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.status().phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    /// How long its containers may take to stop: that of its deletion, else that of its spec.
    pub(crate) fn grace(&self) -> Duration {
        let deletion = self.object.metadata.deletion_grace_period_seconds;
        let deletion = deletion.filter(|_| self.is_deleted());
        let seconds = deletion.or(self.spec().termination_grace_period_seconds);
        seconds.map_or(DEFAULT_GRACE, |seconds| {
            Duration::from_secs(seconds.max(0).unsigned_abs())
        })
    }

    /// When it has been active for longer than its spec allows.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        let seconds = self.spec().active_deadline_seconds?;
        let started = self.status().start_time.as_ref()?.0;
        started
            .checked_add(Duration::from_secs(seconds.max(0).unsigned_abs()))
            .ok()
    }

    /// Whether a failed container is restarted by the policy of the pod.
    pub(crate) fn restarts_on_failure(&self) -> bool {
        self.spec().restart_policy.as_deref() != Some("Never")
    }

    /// Whether the container is started again after this exit code: its own rules, its own policy, that of the pod.
    pub(crate) fn restarts(&self, container: &v1::Container, exit_code: i32) -> bool {
        if container.restart_policy.is_some() && matches_rule(container, exit_code) {
            return true;
        }
        let policy = container.restart_policy.as_deref();
        match policy.or(self.spec().restart_policy.as_deref()) {
            Some("Never") => false,
            Some("OnFailure") => exit_code != 0,
            _ => true,
        }
    }
}

/// Whether an init container keeps running beside the regular ones.
pub(crate) fn is_sidecar(container: &v1::Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Whether the first matching rule of the container restarts it.
fn matches_rule(container: &v1::Container, exit_code: i32) -> bool {
    let matches = |rule: &&v1::ContainerRestartRule| {
        let codes = rule.exit_codes.as_ref();
        codes.is_some_and(|codes| {
            let listed = codes.values.iter().flatten().any(|code| *code == exit_code);
            match codes.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        })
    };
    let mut rules = container.restart_policy_rules.iter().flatten();
    let rule = rules.find(matches);
    rule.is_some_and(|rule| matches!(rule.action.as_str(), "Restart" | "RestartAllContainers"))
}

fn as_container(ephemeral: &v1::EphemeralContainer) -> v1::Container {
    let v1::EphemeralContainer {
        args,
        command,
        env,
        env_from,
        image,
        image_pull_policy,
        lifecycle,
        liveness_probe,
        name,
        ports,
        readiness_probe,
        resize_policy,
        resources,
        restart_policy,
        restart_policy_rules,
        security_context,
        startup_probe,
        stdin,
        stdin_once,
        target_container_name: _,
        termination_message_path,
        termination_message_policy,
        tty,
        volume_devices,
        volume_mounts,
        working_dir,
    } = ephemeral.clone();
    v1::Container {
        args,
        command,
        env,
        env_from,
        image,
        image_pull_policy,
        lifecycle,
        liveness_probe,
        name,
        ports,
        readiness_probe,
        resize_policy,
        resources,
        restart_policy,
        restart_policy_rules,
        security_context,
        startup_probe,
        stdin,
        stdin_once,
        termination_message_path,
        termination_message_policy,
        tty,
        volume_devices,
        volume_mounts,
        working_dir,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(pod_policy: &str, container: Value, exit_code: i32, expected: bool) {
        let mut container = container;
        container["name"] = json!("c");
        let pod = json!({"metadata": {}, "spec": {"restartPolicy": pod_policy, "containers": [container]}});
        let pod = BoundPod::new(serde_json::from_value(pod).unwrap());
        assert_eq!(pod.restarts(&pod.spec().containers[0], exit_code), expected);
    }

    #[test]
    fn fl8_the_policy_of_the_pod_decides_by_the_exit_code() {
        check("Always", json!({}), 0, true);
        check("OnFailure", json!({}), 0, false);
        check("OnFailure", json!({}), 1, true);
        check("Never", json!({}), 1, false);
    }

    #[test]
    fn a_container_may_have_a_policy_and_rules_of_its_own() {
        check("Never", json!({"restartPolicy": "OnFailure"}), 1, true);
        let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
        let container = json!({"restartPolicy": "Never", "restartPolicyRules": rules});
        check("Always", container.clone(), 42, true);
        check("Always", container, 1, false);
    }
}

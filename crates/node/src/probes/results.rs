//! [`ProbeResults`]: the latest results of the probes of containers.

use std::collections::HashMap;

use setpoint_container_runtime::ContainerId;

/// The latest results of the probes of a pod's containers.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProbeResults {
    pub(crate) by_container: HashMap<ContainerId, ContainerProbes>,
    /// The results of all other containers.
    pub(crate) default: ContainerProbes,
}

/// The latest result of each probe of a container: `None` before the first one, and without a probe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ContainerProbes {
    pub(crate) startup: Option<bool>,
    pub(crate) liveness: Option<bool>,
    pub(crate) readiness: Option<bool>,
}

impl ProbeResults {
    /// The results where no container is probed: all probes succeed. Simulated containers have nothing to probe.
    pub(crate) fn all_succeed() -> Self {
        Self {
            by_container: HashMap::new(),
            default: ContainerProbes {
                startup: Some(true),
                liveness: Some(true),
                readiness: Some(true),
            },
        }
    }

    /// The results of one container.
    pub(crate) fn of(&self, id: &ContainerId) -> ContainerProbes {
        self.by_container.get(id).copied().unwrap_or(self.default)
    }
}

//! The differences between ReplicaSets and ReplicationControllers.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{
    PodTemplateSpec, ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus,
};
use setpoint_api::Stored;
use setpoint_runtime::Object;

use super::views::{ControllerView, SetView};

/// A kind that keeps a number of identical pods: ReplicaSet or ReplicationController.
pub(crate) trait Set: Object + Clone + std::fmt::Debug {
    /// The name of its controller, as kube-controller-manager has it.
    const CONTROLLER: &'static str;
    /// The component that its events name as their source.
    const COMPONENT: &'static str;

    fn view(set: &Stored) -> Result<Arc<SetView>, serde_json::Error>;

    fn into_template(self) -> PodTemplateSpec;

    fn put_status(&mut self, status: ReplicaSetStatus);

    /// The part of a status that this kind has.
    fn supported_status(status: ReplicaSetStatus) -> ReplicaSetStatus {
        status
    }
}

impl Set for ReplicaSet {
    const CONTROLLER: &'static str = super::NAME;
    const COMPONENT: &'static str = super::NAME;

    fn view(set: &Stored) -> Result<Arc<SetView>, serde_json::Error> {
        set.view::<SetView>()
    }

    fn into_template(self) -> PodTemplateSpec {
        self.spec.template.unwrap_or_default()
    }

    fn put_status(&mut self, status: ReplicaSetStatus) {
        self.status = Some(status);
    }
}

impl Set for ReplicationController {
    const CONTROLLER: &'static str = super::REPLICATION_NAME;
    const COMPONENT: &'static str = "replication-controller";

    fn view(set: &Stored) -> Result<Arc<SetView>, serde_json::Error> {
        let view = set.view::<ControllerView>()?;
        Ok(Arc::new(view.0.clone()))
    }

    fn into_template(self) -> PodTemplateSpec {
        self.spec.and_then(|spec| spec.template).unwrap_or_default()
    }

    fn put_status(&mut self, status: ReplicaSetStatus) {
        let conditions = status.conditions.map(|conditions| {
            let condition =
                |one: k8s_openapi::api::apps::v1::ReplicaSetCondition| ReplicationControllerCondition {
                    type_: one.type_.unwrap_or_default(),
                    status: one.status.unwrap_or_default(),
                    last_transition_time: one.last_transition_time,
                    reason: one.reason,
                    message: one.message,
                };
            conditions.into_iter().map(condition).collect()
        });
        self.status = Some(ReplicationControllerStatus {
            replicas: status.replicas,
            fully_labeled_replicas: status.fully_labeled_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            observed_generation: status.observed_generation,
            conditions,
        });
    }

    /// It does not count terminating pods.
    fn supported_status(status: ReplicaSetStatus) -> ReplicaSetStatus {
        ReplicaSetStatus {
            terminating_replicas: None,
            ..status
        }
    }
}

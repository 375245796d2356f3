//! The kinds of KUDO (`kudo.dev/v1beta1`), and the labels and annotations of the objects that it applies.

mod instance;
mod operator;
mod operator_version;
mod parameter;

pub use instance::{
    ExecutionStatus, Instance, InstanceSpec, InstanceStatus, PhaseStatus, PlanExecution, PlanStatus,
    StepStatus,
};
pub use operator::{Maintainer, Operator, OperatorSpec};
pub use operator_version::{
    ExecutionOrder, OperatorVersion, OperatorVersionSpec, Phase, PipeSpec, Plan, Step, Task, TaskSpec,
    operator_version_name,
};
pub use parameter::{Parameter, ParameterType};

/// The version of all kinds.
pub const API_VERSION: &str = "kudo.dev/v1beta1";

/// Labels and annotations of applied objects.
#[allow(missing_docs, reason = "the names are those of the keys")]
pub mod labels {
    pub const OPERATOR: &str = "kudo.dev/operator";
    pub const INSTANCE: &str = "kudo.dev/instance";
    pub const HERITAGE: &str = "heritage";
    pub const OPERATOR_VERSION: &str = "kudo.dev/operator-version";
    pub const PLAN: &str = "kudo.dev/plan";
    pub const PHASE: &str = "kudo.dev/phase";
    pub const STEP: &str = "kudo.dev/step";
    pub const PLAN_UID: &str = "kudo.dev/last-plan-execution-uid";
    pub const DEPENDENCIES_HASH: &str = "kudo.dev/dependencies-hash";
    pub const SKIP_HASH_CALCULATION: &str = "kudo.dev/skip-hash-calculation";
    pub const LAST_APPLIED: &str = "kudo.dev/last-applied-configuration";
    pub const PIPE_POD: &str = "kudo.dev/pipepod";
}

/// The plans that the engine starts by itself.
#[allow(missing_docs, reason = "the names are those of the plans")]
pub mod plans {
    pub const DEPLOY: &str = "deploy";
    pub const UPDATE: &str = "update";
    pub const UPGRADE: &str = "upgrade";
    pub const CLEANUP: &str = "cleanup";
}

fn api_version() -> String {
    API_VERSION.to_owned()
}

/// Implements `Object` for a kind of KUDO, which all are namespaced.
macro_rules! kudo_object {
    ($type:ty, $kind:literal, $resource:literal) => {
        impl setpoint_client::Object for $type {
            fn gvk() -> setpoint_api::Gvk {
                setpoint_api::Gvk::new("kudo.dev", "v1beta1", $kind)
            }

            fn resource() -> setpoint_api::Gvr {
                setpoint_api::Gvr::new("kudo.dev", "v1beta1", $resource)
            }

            fn is_namespaced() -> bool {
                true
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }

        impl $type {
            fn kind_name() -> String {
                $kind.to_owned()
            }

            /// The name; empty if it has none.
            pub fn name(&self) -> &str {
                self.metadata.name.as_deref().unwrap_or_default()
            }

            /// The namespace; empty if it has none.
            pub fn namespace(&self) -> &str {
                self.metadata.namespace.as_deref().unwrap_or_default()
            }
        }

        impl Default for $type {
            fn default() -> Self {
                Self {
                    api_version: super::api_version(),
                    kind: Self::kind_name(),
                    metadata: Default::default(),
                    spec: Default::default(),
                    status: Default::default(),
                }
            }
        }
    };
}
use kudo_object;

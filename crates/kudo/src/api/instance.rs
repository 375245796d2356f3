//! Instance: an installed operator with its parameters, the plan that runs, and the status of all plans.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use serde::{Deserialize, Serialize};

/// The finalizer of Instances whose operator has a cleanup plan.
const CLEANUP_FINALIZER: &str = "kudo.dev.instance.cleanup";

/// An instance of an OperatorVersion.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    #[serde(default = "super::api_version")]
    pub api_version: String,
    #[serde(default = "Instance::kind_name")]
    pub kind: String,
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: InstanceSpec,
    #[serde(default)]
    pub status: InstanceStatus,
}

super::kudo_object!(Instance, "Instance", "instances");

/// The desired state.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceSpec {
    pub operator_version: ObjectReference,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "PlanExecution::is_empty")]
    pub plan_execution: PlanExecution,
}

/// The plan that is to run. It is cleared when the plan ends. A new UID means that the plan starts again.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanExecution {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub plan_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ExecutionStatus>,
}

/// The observed state.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceStatus {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub plan_status: BTreeMap<String, PlanStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The status of a plan.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanStatus {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub status: ExecutionStatus,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated_timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseStatus>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// The status of a phase.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseStatus {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub status: ExecutionStatus,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepStatus>,
}

/// The status of a step.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepStatus {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub status: ExecutionStatus,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How far a plan, a phase or a step is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ExecutionStatus {
    /// It has never run.
    #[default]
    NeverRun,
    /// It is to run, and waits for others.
    Pending,
    /// It runs, and is not healthy yet.
    InProgress,
    /// It is done.
    Complete,
    /// Its last attempt failed; it is tried again.
    Error,
    /// It failed and is not tried again.
    FatalError,
}

impl ExecutionStatus {
    /// Whether it has ended, with or without success.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::FatalError)
    }

    /// Whether it runs, or is about to.
    pub fn is_running(self) -> bool {
        matches!(self, Self::InProgress | Self::Pending | Self::Error)
    }

    /// The name, as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NeverRun => "NEVER_RUN",
            Self::Pending => "PENDING",
            Self::InProgress => "IN_PROGRESS",
            Self::Complete => "COMPLETE",
            Self::Error => "ERROR",
            Self::FatalError => "FATAL_ERROR",
        }
    }
}

impl Instance {
    /// The namespace of its OperatorVersion.
    pub fn operator_version_namespace(&self) -> &str {
        let namespace = self
            .spec
            .operator_version
            .namespace
            .as_deref()
            .unwrap_or_default();
        match namespace {
            "" => self.namespace(),
            namespace => namespace,
        }
    }

    /// The name of its OperatorVersion.
    pub fn operator_version_name(&self) -> &str {
        self.spec.operator_version.name.as_deref().unwrap_or_default()
    }

    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether another Instance owns it, as the parent of a dependency.
    pub fn is_child(&self) -> bool {
        let owners = self.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| owner.kind == self.kind)
    }

    /// Whether the cleanup plan is still to run when the Instance is deleted.
    pub fn is_cleanup_due(&self) -> bool {
        let cleanup = self.status.plan_status.get(super::plans::CLEANUP);
        cleanup.is_none_or(|plan| plan.status == ExecutionStatus::NeverRun)
    }

    /// Adds the finalizer of the cleanup plan, unless the plan has run.
    pub fn add_cleanup_finalizer(&mut self) {
        if self.has_cleanup_finalizer() || !self.is_cleanup_due() {
            return;
        }
        let finalizers = self.metadata.finalizers.get_or_insert_default();
        finalizers.push(CLEANUP_FINALIZER.to_owned());
    }

    /// Removes the finalizer once the cleanup plan is complete, or if there is no such plan.
    pub fn remove_cleanup_finalizer(&mut self) {
        let cleanup = self.status.plan_status.get(super::plans::CLEANUP);
        let is_needed = cleanup.is_some_and(|plan| plan.status != ExecutionStatus::Complete);
        if let Some(finalizers) = &mut self.metadata.finalizers
            && !is_needed
        {
            finalizers.retain(|finalizer| finalizer != CLEANUP_FINALIZER);
        }
    }

    /// The status of the plan that runs, else of the one that ran last.
    pub fn last_executed_plan(&self) -> Option<&PlanStatus> {
        let plans = self.status.plan_status.values();
        let running = plans.clone().find(|plan| plan.status.is_running());
        running.or_else(|| {
            plans
                .filter(|plan| plan.status != ExecutionStatus::NeverRun)
                .max_by_key(|plan| plan.updated_at())
        })
    }

    fn has_cleanup_finalizer(&self) -> bool {
        let finalizers = self.metadata.finalizers.iter().flatten();
        finalizers
            .into_iter()
            .any(|finalizer| finalizer == CLEANUP_FINALIZER)
    }
}

impl PlanStatus {
    /// When it changed last.
    pub fn updated_at(&self) -> Option<Timestamp> {
        self.last_updated_timestamp.as_ref().map(|time| time.0)
    }
}

impl PlanExecution {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

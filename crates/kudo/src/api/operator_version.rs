//! OperatorVersion: the templates, tasks, parameters and plans of one version of an operator.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::Parameter;

/// One version of an operator.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorVersion {
    #[serde(default = "super::api_version")]
    pub api_version: String,
    #[serde(default = "OperatorVersion::kind_name")]
    pub kind: String,
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: OperatorVersionSpec,
    #[serde(default)]
    pub status: serde_json::Map<String, serde_json::Value>,
}

super::kudo_object!(OperatorVersion, "OperatorVersion", "operatorversions");

/// What an operator's version consists of.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorVersionSpec {
    pub operator: ObjectReference,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub templates: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Task>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub plans: BTreeMap<String, Plan>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub connection_string: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub upgradable_from: Vec<ObjectReference>,
}

/// Whether elements run one after another, or each as soon as possible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutionOrder {
    /// An element starts when the one before is complete.
    Serial,
    /// No element waits for another.
    Parallel,
    /// Not set, which is as parallel.
    #[default]
    #[serde(rename = "")]
    Unset,
}

/// A plan: phases of steps.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    pub strategy: ExecutionOrder,
    #[serde(deserialize_with = "nullable")]
    pub phases: Vec<Phase>,
}

/// A phase: steps.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phase {
    pub name: String,
    pub strategy: ExecutionOrder,
    #[serde(deserialize_with = "nullable")]
    pub steps: Vec<Step>,
}

/// A step: the names of tasks.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub tasks: Vec<String>,
}

/// A task. Which fields of the spec it has depends on its kind.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Task {
    pub name: String,
    pub kind: String,
    pub spec: TaskSpec,
}

/// The fields of tasks of all kinds.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskSpec {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub resources: Vec<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub want_err: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub fatal: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub done: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod: String,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub pipe: Vec<PipeSpec>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parameter: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub package: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub instance_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operator_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parameter_file: String,
}

/// A file of a pod that a Pipe task copies to a Secret or a ConfigMap.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PipeSpec {
    pub file: String,
    pub env_file: String,
    pub kind: String,
    pub key: String,
}

/// The name of an OperatorVersion.
pub fn operator_version_name(operator: &str, app_version: &str, version: &str) -> String {
    match app_version {
        "" => format!("{operator}-{version}"),
        _ => format!("{operator}-{app_version}-{version}"),
    }
}

impl OperatorVersion {
    /// The name that its operator and versions give it.
    pub fn qualified_name(&self) -> String {
        let spec = &self.spec;
        operator_version_name(self.operator_name(), &spec.app_version, &spec.version)
    }

    /// The name of its Operator.
    pub fn operator_name(&self) -> &str {
        self.spec.operator.name.as_deref().unwrap_or_default()
    }

    /// The task of this name.
    pub fn find_task(&self, name: &str) -> Option<&Task> {
        self.spec.tasks.iter().find(|task| task.name == name)
    }

    /// The parameter of this name.
    pub fn find_parameter(&self, name: &str) -> Option<&Parameter> {
        self.spec
            .parameters
            .iter()
            .find(|parameter| parameter.name == name)
    }

    /// The first of these plans that it has.
    pub fn select_plan<'p>(&self, names: &[&'p str]) -> Option<&'p str> {
        names
            .iter()
            .copied()
            .find(|name| self.spec.plans.contains_key(*name))
    }
}

impl ExecutionOrder {
    /// The name, as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::Parallel => "parallel",
            Self::Unset => "",
        }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// `null` is the empty value.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

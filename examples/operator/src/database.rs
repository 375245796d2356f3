//! The custom resource: spec and status.

#![allow(clippy::duplicated_attributes, reason = "two columns may be of one type")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use setpoint_manifests::schema;

/// The desired state.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "db.example.com", version = "v1", kind = "Database")]
#[kube(namespaced, status = "DatabaseStatus", shortname = "db", derive = "PartialEq")]
#[kube(doc = "A database of several members, of which one is the primary.")]
#[kube(printcolumn(name = "Version", type_ = "string", json_path = ".status.version"))]
#[kube(printcolumn(name = "Primary", type_ = "string", json_path = ".status.primary"))]
#[kube(printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyMembers"))]
#[kube(printcolumn(name = "Backup", type_ = "date", json_path = ".status.lastBackup"))]
#[serde(rename_all = "camelCase")]
pub struct DatabaseSpec {
    /// The version to run, such as `2.1`. It may be raised, never lowered.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)*$"))]
    pub version: String,
    /// How many members there are.
    #[schemars(range(min = 1, max = 9))]
    #[serde(default = "three")]
    pub members: i32,
    /// How and when to back up.
    #[serde(default)]
    pub backup: Backup,
}

/// How and when to back up. Before an upgrade and before the deletion there is a backup in any case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// A backup is taken when the last one is this old. Zero: never.
    #[schemars(range(min = 0))]
    #[serde(default)]
    pub every_seconds: i64,
    /// How many backups to keep.
    #[schemars(range(min = 1))]
    #[serde(default = "keep")]
    pub keep: i32,
}

/// The observed state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseStatus {
    /// The generation of the spec that the operator has reconciled.
    #[serde(default)]
    pub observed_generation: i64,
    /// The version that all members run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The member that takes writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
    #[serde(default)]
    pub ready_members: i32,
    #[schemars(schema_with = "schema::time")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_backup: Option<Time>,
    #[schemars(schema_with = "schema::conditions")]
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

impl Default for Backup {
    fn default() -> Self {
        Self {
            every_seconds: 0,
            keep: keep(),
        }
    }
}

fn three() -> i32 {
    3
}

fn keep() -> i32 {
    3
}

//! The fields of a set that this controller reads.

use std::collections::BTreeMap;

use compact_str::CompactString;
use k8s_openapi::api::apps::v1::ReplicaSetStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde::Deserialize;
use serde::de::IgnoredAny;
use setpoint_api::selector::{LabelSelector, ParseSelectorError};
use setpoint_runtime::label_selector;

/// The spec and the status of a ReplicaSet.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "RawSet<meta::LabelSelector>")]
pub(crate) struct SetView {
    pub(crate) replicas: usize,
    pub(crate) min_ready_seconds: i64,
    pub(crate) selector: LabelSelector,
    /// The labels of the template.
    pub(crate) labels: BTreeMap<CompactString, CompactString>,
    pub(crate) generation: i64,
    /// Whether it is being deleted. Its pods are then left to the garbage collector.
    pub(crate) is_terminating: bool,
    pub(crate) status: ReplicaSetStatus,
}

/// The same of a ReplicationController, whose selector is a plain map.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "RawSet<BTreeMap<String, String>>")]
pub(crate) struct ControllerView(pub(crate) SetView);

// === impl SetView ===

impl TryFrom<RawSet<meta::LabelSelector>> for SetView {
    type Error = ParseSelectorError;

    fn try_from(set: RawSet<meta::LabelSelector>) -> Result<Self, ParseSelectorError> {
        let selector = label_selector(&set.spec.selector)?;
        Ok(set.selecting(selector))
    }
}

// === impl ControllerView ===

impl TryFrom<RawSet<BTreeMap<String, String>>> for ControllerView {
    type Error = ParseSelectorError;

    fn try_from(set: RawSet<BTreeMap<String, String>>) -> Result<Self, ParseSelectorError> {
        let selector = meta::LabelSelector {
            match_labels: Some(set.spec.selector.clone()),
            match_expressions: None,
        };
        let selector = label_selector(&selector)?;
        Ok(Self(set.selecting(selector)))
    }
}

// The sets as serialized, limited to the fields read here.

#[derive(Deserialize)]
struct RawSet<S> {
    #[serde(default)]
    metadata: RawSetMeta,
    spec: RawSetSpec<S>,
    #[serde(default)]
    status: ReplicaSetStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSetMeta {
    generation: i64,
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSetSpec<S> {
    replicas: Option<i32>,
    #[serde(default)]
    min_ready_seconds: i64,
    selector: S,
    #[serde(default)]
    template: RawTemplate,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawTemplate {
    metadata: RawTemplateMeta,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawTemplateMeta {
    labels: BTreeMap<CompactString, CompactString>,
}

impl<S> RawSet<S> {
    fn selecting(self, selector: LabelSelector) -> SetView {
        SetView {
            replicas: usize::try_from(self.spec.replicas.unwrap_or(1)).unwrap_or(0),
            min_ready_seconds: self.spec.min_ready_seconds,
            selector,
            labels: self.spec.template.metadata.labels,
            generation: self.metadata.generation,
            is_terminating: self.metadata.deletion_timestamp.is_some(),
            status: self.status,
        }
    }
}

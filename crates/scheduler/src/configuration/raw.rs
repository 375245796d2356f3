//! The JSON of a KubeSchedulerConfiguration. The fields that exist are also listed in [`super::strict`].

use serde::Deserialize;
use serde_json::Value;

use crate::extender::ExtenderConfig;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawConfiguration {
    pub(super) parallelism: Option<i64>,
    pub(super) percentage_of_nodes_to_score: Option<i64>,
    pub(super) pod_initial_backoff_seconds: Option<i64>,
    pub(super) pod_max_backoff_seconds: Option<i64>,
    pub(super) profiles: Vec<RawProfile>,
    pub(super) extenders: Vec<ExtenderConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawProfile {
    pub(super) scheduler_name: Option<String>,
    pub(super) percentage_of_nodes_to_score: Option<i64>,
    pub(super) plugins: RawPlugins,
    pub(super) plugin_config: Vec<RawPluginConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawPluginConfig {
    pub(super) name: String,
    pub(super) args: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawPlugins {
    pub(super) multi_point: RawPluginSet,
    pub(super) pre_enqueue: RawPluginSet,
    pub(super) queue_sort: RawPluginSet,
    pub(super) pre_filter: RawPluginSet,
    pub(super) filter: RawPluginSet,
    pub(super) post_filter: RawPluginSet,
    pub(super) pre_score: RawPluginSet,
    pub(super) score: RawPluginSet,
    pub(super) reserve: RawPluginSet,
    pub(super) permit: RawPluginSet,
    pub(super) pre_bind: RawPluginSet,
    pub(super) bind: RawPluginSet,
    pub(super) post_bind: RawPluginSet,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct RawPluginSet {
    pub(super) enabled: Vec<RawPlugin>,
    pub(super) disabled: Vec<RawPlugin>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct RawPlugin {
    pub(super) name: String,
    pub(super) weight: Option<i64>,
}

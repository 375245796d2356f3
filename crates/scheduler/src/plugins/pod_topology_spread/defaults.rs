//! [`Workloads`]: the Services and controllers that a pod belongs to, whose selectors default constraints use.

use std::collections::BTreeMap;
use std::sync::Arc;

use compact_str::CompactString;
use serde::Deserialize;
use setpoint_api::Key;
use setpoint_api::selector::{Operator, Requirement};
use setpoint_runtime::Cache;

use crate::framework::Handle;
use crate::pod_info::PodInfo;
use crate::pod_info::selector::{PodSelector, RawSelector};

/// The caches of Services and of controllers with a selector.
#[derive(Debug, Default)]
pub(super) struct Workloads {
    services: Option<Arc<Cache>>,
    replication_controllers: Option<Arc<Cache>>,
    replica_sets: Option<Arc<Cache>>,
    stateful_sets: Option<Arc<Cache>>,
}

/// A Service or a ReplicationController: labels that pods must have.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MapSelectorView {
    spec: MapSelectorSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MapSelectorSpec {
    selector: BTreeMap<CompactString, CompactString>,
}

/// A ReplicaSet or a StatefulSet: a label selector.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LabelSelectorView {
    spec: LabelSelectorSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LabelSelectorSpec {
    selector: Option<RawSelector>,
}

impl Workloads {
    pub(super) fn new(handle: &Handle) -> Self {
        Self {
            services: handle.cache("", "services"),
            replication_controllers: handle.cache("", "replicationcontrollers"),
            replica_sets: handle.cache("apps", "replicasets"),
            stateful_sets: handle.cache("apps", "statefulsets"),
        }
    }

    /// The selector of the pods of the same Services and the same controller; everything if there are none.
    pub(super) fn selector(&self, pod: &PodInfo) -> PodSelector {
        let mut labels = self.service_labels(pod);
        let owner = pod.controller.as_deref();
        let key = |name: &str| Key::new(pod.namespace(), name);
        match owner.map(|owner| (&*owner.api_version, &*owner.kind, &*owner.name)) {
            Some(("v1", "ReplicationController", name)) => {
                labels.extend(map_selector(&self.replication_controllers, &key(name)));
                equal_labels(labels)
            }
            Some(("apps/v1", "ReplicaSet", name)) => {
                add_selector(equal_labels(labels), &self.replica_sets, &key(name))
            }
            Some(("apps/v1", "StatefulSet", name)) => {
                add_selector(equal_labels(labels), &self.stateful_sets, &key(name))
            }
            _ => equal_labels(labels),
        }
    }

    /// The labels that all Services with the pod select by.
    fn service_labels(&self, pod: &PodInfo) -> BTreeMap<CompactString, CompactString> {
        let mut labels = BTreeMap::new();
        let Some(services) = &self.services else {
            return labels;
        };
        let snapshot = services.snapshot();
        for service in snapshot.in_namespace(pod.namespace()) {
            let Ok(view) = service.view::<MapSelectorView>() else {
                continue;
            };
            let selector = &view.spec.selector;
            let mut required = selector.iter();
            if !selector.is_empty() && required.all(|(name, value)| pod.label(name) == Some(value)) {
                labels.extend(selector.clone());
            }
        }
        labels
    }
}

fn map_selector(cache: &Option<Arc<Cache>>, key: &Key) -> BTreeMap<CompactString, CompactString> {
    let object = cache.as_ref().and_then(|cache| cache.find(key));
    let view = object.and_then(|object| object.view::<MapSelectorView>().ok());
    view.map(|view| view.spec.selector.clone()).unwrap_or_default()
}

fn add_selector(selector: PodSelector, cache: &Option<Arc<Cache>>, key: &Key) -> PodSelector {
    let object = cache.as_ref().and_then(|cache| cache.find(key));
    let view = object.and_then(|object| object.view::<LabelSelectorView>().ok());
    let Some(raw) = view.and_then(|view| view.spec.selector.clone()) else {
        return selector;
    };
    selector.and_all(&PodSelector::from_raw(Some(raw)))
}

fn equal_labels(labels: BTreeMap<CompactString, CompactString>) -> PodSelector {
    let requirements = labels.into_iter().map(|(label, value)| Requirement {
        label,
        operator: Operator::In(vec![value]),
    });
    PodSelector::new(requirements.collect())
}

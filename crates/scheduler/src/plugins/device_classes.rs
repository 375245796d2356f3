//! [`DeviceClasses`]: the DeviceClasses that back extended resources (upstream: `deviceclass/extendedresourcecache`).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use compact_str::CompactString;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use setpoint_runtime::Cache;

use super::storage::ObjectView;
use crate::framework::Handle;

/// With the name of a class, this is the name of a resource that every class backs.
pub(super) const IMPLICIT_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// The classes by the resources that they back. They are read again after a class changed.
#[derive(Debug, Default)]
pub(super) struct DeviceClasses {
    cache: Option<Arc<Cache>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The changes of the cache that the map includes; `None` before it was read.
    sequence: Option<u64>,
    by_resource: Arc<ClassesByResource>,
}

/// The name of the class by the name of the resource.
pub(super) type ClassesByResource = HashMap<CompactString, CompactString>;

/// A class, as far as it backs resources.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourceClass {
    metadata: ClassMetadata,
    spec: ClassSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClassMetadata {
    creation_timestamp: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClassSpec {
    extended_resource_name: Option<CompactString>,
}

impl ResourceClass {
    /// The resource that it names; every class backs an implicit one, too.
    pub(super) fn resource(&self) -> Option<&str> {
        self.spec.extended_resource_name.as_deref()
    }
}

impl DeviceClasses {
    pub(super) fn new(handle: &Handle) -> Self {
        Self {
            cache: handle.cache("resource.k8s.io", "deviceclasses"),
            state: Mutex::default(),
        }
    }

    /// The class that backs the resource.
    pub(super) fn find(&self, resource: &str) -> Option<CompactString> {
        self.by_resource().get(resource).cloned()
    }

    pub(super) fn by_resource(&self) -> Arc<ClassesByResource> {
        let Some(cache) = &self.cache else {
            return Arc::default();
        };
        let sequence = Some(cache.sequence());
        let mut state = self.state.lock();
        if state.sequence != sequence {
            *state = State {
                sequence,
                by_resource: Arc::new(read(cache)),
            };
        }
        state.by_resource.clone()
    }
}

/// Of several classes that name one resource the newest backs it, and of these the first by name.
fn read(cache: &Arc<Cache>) -> ClassesByResource {
    let snapshot = cache.snapshot();
    let classes = snapshot
        .iter()
        .cloned()
        .filter_map(ObjectView::<ResourceClass>::of);
    let mut classes: Vec<_> = classes.collect();
    classes.sort_by(|a, b| {
        let key = |class: &ObjectView<ResourceClass>| {
            let name = class.object.key().name().to_owned();
            (class.view.metadata.creation_timestamp, Reverse(name))
        };
        key(a).cmp(&key(b))
    });
    let mut by_resource = ClassesByResource::new();
    for class in classes {
        let name = CompactString::from(class.object.key().name());
        by_resource.insert(format!("{IMPLICIT_PREFIX}{name}").into(), name.clone());
        if let Some(resource) = class.view.resource() {
            by_resource.insert(resource.into(), name);
        }
    }
    by_resource
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};
    use setpoint_api::{GroupResource, Header, Key, ResourceVersion, Stored};

    use super::*;

    /// The classes with these names, creation times and resources.
    pub(crate) fn classes(rows: &[(&str, i64, Option<&str>)]) -> DeviceClasses {
        let cache = Cache::new(GroupResource::new("resource.k8s.io", "deviceclasses"));
        let objects = rows
            .iter()
            .map(|(name, second, resource)| class(name, *second, *resource));
        cache.replace(objects.collect(), ResourceVersion(1));
        DeviceClasses {
            cache: Some(Arc::new(cache)),
            ..DeviceClasses::default()
        }
    }

    pub(crate) fn class(name: &str, second: i64, resource: Option<&str>) -> Arc<Stored> {
        let created = Timestamp::from_second(second).unwrap().to_string();
        let mut spec = json!({});
        if let Some(resource) = resource {
            spec["extendedResourceName"] = Value::from(resource);
        }
        let object = json!({"metadata": {"name": name, "creationTimestamp": created}, "spec": spec});
        let header = Header::new(Key::new("", name));
        Arc::new(Stored::new(header, object.to_string().into(), 1))
    }

    #[test]
    fn classes_back_the_resource_that_they_name_and_an_implicit_one() {
        let classes = classes(&[("gpu", 1, Some("example.com/gpu")), ("nic", 1, None)]);
        let find = |resource: &str| classes.find(resource).map(String::from).unwrap_or_default();
        assert_eq!(find("example.com/gpu"), "gpu");
        assert_eq!(find("deviceclass.resource.kubernetes.io/gpu"), "gpu");
        assert_eq!(find("deviceclass.resource.kubernetes.io/nic"), "nic");
        assert_eq!(find("example.com/nic"), "");
    }

    #[test]
    fn the_newest_class_that_names_a_resource_backs_it() {
        let gpu = Some("example.com/gpu");
        let find = |rows: &[(&str, i64, Option<&str>)]| classes(rows).find("example.com/gpu").unwrap();
        assert_eq!(find(&[("a", 1, gpu), ("b", 2, gpu)]), "b");
        assert_eq!(find(&[("a", 2, gpu), ("b", 1, gpu)]), "a");
        assert_eq!(find(&[("b", 1, gpu), ("a", 1, gpu)]), "a");
    }

    #[test]
    fn a_class_that_is_added_is_found() {
        let classes = classes(&[]);
        assert_eq!(classes.find("example.com/gpu"), None);
        let added = class("gpu", 1, Some("example.com/gpu"));
        let cache = classes.cache.as_ref().unwrap();
        cache.apply(vec![setpoint_api::Change::Added(added)], ResourceVersion(2));
        assert_eq!(classes.find("example.com/gpu").as_deref(), Some("gpu"));
    }
}

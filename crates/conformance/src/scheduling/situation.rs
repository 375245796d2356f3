//! The format of the situations: a world of nodes, pods and other objects, and the pods that are scheduled in it.
//!
//! Nodes and pods are short forms that [`NodeForm::object`] and [`PodForm::object`] complete; all other objects are
//! written in full.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde::Deserialize;
use serde_json::{Value, json};

/// The host port by which nodes are eliminated.
pub(super) const BLOCKED_PORT: u16 = 61_999;

/// A file of situations in one cluster state.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct World {
    /// The name of the file, which is also the namespace of its objects.
    #[serde(skip)]
    pub name: String,
    pub nodes: Vec<NodeForm>,
    /// Pods that run already.
    #[serde(default)]
    pub pods: Vec<PodForm>,
    #[serde(default)]
    pub objects: Vec<Value>,
    pub situations: Vec<Situation>,
}

/// One pod to schedule, with objects that exist for it alone.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Situation {
    pub id: String,
    pub pod: PodForm,
    #[serde(default)]
    pub pods: Vec<PodForm>,
    #[serde(default)]
    pub objects: Vec<Value>,
    /// The conditions that a DRA driver reports of allocated devices with binding conditions. Set, if maybe empty, where a
    /// pod may wait for them.
    #[serde(default)]
    pub device_conditions: Option<Vec<Value>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeForm {
    pub name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    /// Added to 4 CPUs, 8Gi of memory and 110 pods.
    #[serde(default)]
    allocatable: BTreeMap<String, Value>,
    /// `key=value:effect` or `key:effect`.
    #[serde(default)]
    taints: Vec<String>,
    #[serde(default)]
    unschedulable: bool,
    /// Bytes by image name.
    #[serde(default)]
    images: BTreeMap<String, i64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PodForm {
    pub name: String,
    /// That of the world, if not set.
    pub namespace: Option<String>,
    pub node: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    /// The requests of the only container.
    requests: BTreeMap<String, Value>,
    /// The PriorityClass.
    priority: Option<String>,
    /// The owner as `apiVersion/Kind/name`.
    owner: Option<String>,
    /// Further fields of the pod's specification.
    spec: serde_json::Map<String, Value>,
    /// The pod's status, if it has one.
    pub status: Option<Value>,
}

/// The worlds of a directory, in the order of their names.
pub fn read_worlds(directory: &Path) -> Result<Vec<World>> {
    let listing = fs::read_dir(directory).with_context(|| format!("read {}", directory.display()))?;
    let mut worlds = Vec::new();
    for entry in listing {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            worlds.push(read_world(&path)?);
        }
    }
    worlds.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(worlds)
}

fn read_world(path: &Path) -> Result<World> {
    let text = fs::read_to_string(path)?;
    let mut world: World =
        serde_saphyr::from_str(&text).with_context(|| format!("{} cannot be parsed", path.display()))?;
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    stem.context("the file has a name")?.clone_into(&mut world.name);
    Ok(world)
}

// === impl World ===

impl World {
    /// The id of a situation in the file of decisions.
    pub fn id(&self, situation: &Situation) -> String {
        format!("{}/{}", self.name, situation.id)
    }

    /// The same world, with its nodes created in another order.
    pub(super) fn shuffled(&self, seed: u64) -> Self {
        let mut world = self.clone();
        world.nodes.shuffle(&mut StdRng::seed_from_u64(seed));
        world
    }
}

// === impl NodeForm ===

impl NodeForm {
    /// Whether its number of pods is not limited: a pod may be bound to it for a test.
    pub(super) fn takes_pods(&self) -> bool {
        !self.allocatable.contains_key("pods")
    }

    pub(super) fn object(&self) -> Value {
        let mut labels = self.labels.clone();
        labels.insert("kubernetes.io/hostname".to_owned(), self.name.clone());
        let mut allocatable = BTreeMap::from([
            ("cpu".to_owned(), json!("4")),
            ("memory".to_owned(), json!("8Gi")),
            ("pods".to_owned(), json!("110")),
        ]);
        allocatable.extend(self.allocatable.clone());
        let images = self.images.iter();
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels, "annotations": self.annotations},
            "spec": {
                "unschedulable": self.unschedulable,
                "taints": self.taints.iter().map(|text| taint(text)).collect::<Vec<_>>(),
            },
            "status": {
                "capacity": allocatable,
                "allocatable": allocatable,
                "images": images.map(|(name, size)| json!({"names": [name], "sizeBytes": size})).collect::<Vec<_>>(),
            },
        })
    }
}

fn taint(text: &str) -> Value {
    let (key, effect) = text.rsplit_once(':').unwrap_or((text, "NoSchedule"));
    let (key, value) = key.split_once('=').unwrap_or((key, ""));
    json!({"key": key, "value": value, "effect": effect})
}

// === impl PodForm ===

impl PodForm {
    /// The pod as an object of this namespace.
    pub(super) fn object(&self, namespace: &str) -> Value {
        let mut spec = self.spec.clone();
        if let Some(node) = &self.node {
            spec.insert("nodeName".to_owned(), json!(node));
        }
        if let Some(class) = &self.priority {
            spec.insert("priorityClassName".to_owned(), json!(class));
        }
        let containers = spec
            .entry("containers")
            .or_insert_with(|| json!([{"resources": {"requests": self.requests}}]));
        name_containers(containers, "c");
        if let Some(containers) = spec.get_mut("initContainers") {
            name_containers(containers, "i");
        }
        let namespace = self.namespace.as_deref().unwrap_or(namespace);
        let mut metadata = json!({"name": self.name, "namespace": namespace});
        metadata["labels"] = json!(self.labels);
        metadata["annotations"] = json!(self.annotations);
        if let Some(owner) = self.owner.as_deref().and_then(owner_reference) {
            metadata["ownerReferences"] = json!([owner]);
        }
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    }

    /// A copy of the pod under test: it has this name, and requests the port by which nodes are eliminated.
    pub(super) fn copy(&self, namespace: &str, name: &str) -> Value {
        let mut pod = self.object(namespace);
        pod["metadata"]["name"] = json!(name);
        let port = json!({"containerPort": BLOCKED_PORT, "hostPort": BLOCKED_PORT});
        let ports = &mut pod["spec"]["containers"][0]["ports"];
        match ports.as_array_mut() {
            Some(ports) => ports.push(port),
            None => *ports = json!([port]),
        }
        pod
    }
}

/// Sets the required fields of containers that have none.
fn name_containers(containers: &mut Value, prefix: &str) {
    let containers = containers.as_array_mut().map(Vec::as_mut_slice);
    for (number, container) in containers.unwrap_or_default().iter_mut().enumerate() {
        for (field, value) in [("name", format!("{prefix}{number}")), ("image", "i".to_owned())] {
            if container[field].is_null() {
                container[field] = json!(value);
            }
        }
    }
}

/// The reference to a controller, of `apiVersion/Kind/name`.
fn owner_reference(text: &str) -> Option<Value> {
    let (rest, name) = text.rsplit_once('/')?;
    let (version, kind) = rest.rsplit_once('/')?;
    Some(json!({"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": true}))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn worlds() -> Vec<World> {
        read_worlds(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scheduling")).unwrap()
    }

    #[test]
    fn there_are_at_least_300_situations_with_ids_of_their_own() {
        let worlds = worlds();
        let ids: Vec<String> = worlds
            .iter()
            .flat_map(|world| world.situations.iter().map(|situation| world.id(situation)))
            .collect();
        assert!(ids.len() >= 300, "{}", ids.len());
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    }

    #[test]
    fn every_situation_has_a_recorded_decision() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reference/scheduling.jsonl");
        let decisions = super::super::read_decisions(&file).unwrap();
        for world in worlds() {
            for situation in &world.situations {
                let id = world.id(situation);
                assert!(decisions.contains_key(&id), "{id}");
            }
        }
    }

    #[test]
    fn a_taint_has_a_key_a_value_and_an_effect() {
        assert_eq!(
            taint("a/b=c:NoExecute"),
            json!({"key": "a/b", "value": "c", "effect": "NoExecute"})
        );
        assert_eq!(
            taint("a:NoSchedule"),
            json!({"key": "a", "value": "", "effect": "NoSchedule"})
        );
    }
}

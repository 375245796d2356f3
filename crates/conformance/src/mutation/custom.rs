//! Mutated writes of custom resources, whose schema has every construct of a structural schema.

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::writes::random_patch;
use super::{body, case};
use crate::corpus::CustomKind;
use crate::corpus::steps::{self, APPLY, JSON, MERGE, TABLE, get, get_as, patch, post, send};
use crate::transcript::{Case, Step};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// How long a CustomResourceDefinition may take until it is served.
const ESTABLISHED_MS: u64 = 20_000;

/// The object of one case, valid as it is.
struct Gadget {
    name: String,
    path: String,
    object: Value,
    status: Value,
}

/// A write or a read of a custom resource.
pub(super) fn write(namespace: &str, id: &str, rng: &mut StdRng) -> Case {
    let custom = CustomKind::of_corpus();
    let at = CustomKind::collection(namespace);
    let name = format!("gadget-{id}");
    let mut gadget = Gadget {
        path: format!("{at}/{name}"),
        object: custom.object,
        status: custom.status,
        name,
    };
    gadget.object["metadata"]["name"] = json!(gadget.name);
    let create = post(&at, &gadget.object);
    let mutated = body::mutated(&gadget.object, rng);
    let validation = ["", "&fieldValidation=Strict", "&fieldValidation=Ignore"][rng.random_range(0..3)];
    let (name, steps) = match rng.random_range(0..10) {
        0..3 => (
            "create",
            vec![post(&format!("{at}?dryRun=All{validation}"), &mutated)],
        ),
        3 | 4 => {
            let update = send("PUT", &gadget.path, JSON, with_version(mutated));
            ("update", vec![create, update, get_as(&gadget.path, TABLE)])
        }
        5 | 6 => (
            "patch",
            vec![create, random_patch(&gadget.path, &gadget.object, rng)],
        ),
        7 => (
            "apply",
            vec![gadget.apply("one", &mutated), gadget.apply("two", &gadget.object)],
        ),
        8 => ("status", vec![create, gadget.write_status(rng)]),
        _ => {
            let read = get(&format!("{}/scale", gadget.path));
            ("scale", vec![create, gadget.write_scale(rng), read])
        }
    };
    let mut case = case("custom", name, id, steps);
    case.setup = setup(&at, &custom.definition);
    case.cleanup = vec![steps::delete(&gadget.path)];
    case
}

impl Gadget {
    fn apply(&self, manager: &str, object: &Value) -> Step {
        let path = format!("{}?fieldManager={manager}", self.path);
        send("PATCH", &path, APPLY, object.to_string())
    }

    fn write_status(&self, rng: &mut StdRng) -> Step {
        let mut object = self.object.clone();
        object["status"] = body::mutated(&self.status, rng);
        let path = format!("{}/status", self.path);
        match rng.random_bool(0.5) {
            true => send("PUT", &path, JSON, with_version(object)),
            false => patch(&path, MERGE, &json!({"status": object["status"]})),
        }
    }

    fn write_scale(&self, rng: &mut StdRng) -> Step {
        let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": self.name}, "spec": {"replicas": 3}});
        let path = format!("{}/scale", self.path);
        match rng.random_bool(0.5) {
            true => send("PUT", &path, JSON, with_version(body::mutated(&scale, rng))),
            false => patch(&path, MERGE, &json!({"spec": body::mutated(&scale, rng)["spec"]})),
        }
    }
}

/// The body of an update of the object that the first step created.
fn with_version(mut object: Value) -> String {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata
            .entry("resourceVersion")
            .or_insert(json!("{{steps.0.rv}}"));
    }
    object.to_string()
}

fn setup(at: &str, definition: &Value) -> Vec<Step> {
    let mut steps = steps::namespace(at);
    steps.push(post(CRDS, definition));
    steps.push(Step {
        retry_ms: ESTABLISHED_MS,
        wait_ms: 1000,
        ..get(at)
    });
    steps
        .into_iter()
        .map(|step| Step { once: true, ..step })
        .collect()
}

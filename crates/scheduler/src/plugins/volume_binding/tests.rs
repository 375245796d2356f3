//! Rows over a claim, volumes and a node with the label `zone=a`.

use std::sync::Arc;

use serde_json::{Value, json};
use setpoint_api::{GroupResource, Header, Key, ResourceVersion, Stored};

use super::*;

fn stored(namespace: &str, object: &Value) -> Arc<Stored> {
    let name = object["metadata"]["name"].as_str().unwrap();
    let mut header = Header::new(Key::new(namespace, name));
    header.uid = name.into();
    Arc::new(Stored::new(header, object.to_string().into(), 1))
}

fn cache(group: &str, resource: &str, namespace: &str, objects: &[Value]) -> Option<Arc<Cache>> {
    let cache = Cache::new(GroupResource::new(group, resource));
    let objects = objects.iter().map(|object| stored(namespace, object)).collect();
    cache.replace(objects, ResourceVersion(1));
    Some(Arc::new(cache))
}

fn plugin(volumes: &[Value]) -> VolumeBinding {
    let class = |name: &str, provisioner: &str| json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"});
    let classes = [
        class("local", "kubernetes.io/no-provisioner"),
        class("disk", "example.com"),
    ];
    let storage = Storage::of_caches(
        None,
        cache("", "persistentvolumes", "", volumes),
        cache("storage.k8s.io", "storageclasses", "", &classes),
    );
    VolumeBinding {
        storage,
        nodes: None,
        pods: None,
        assumed: AssumedVolumes::default(),
        bind_timeout: DEFAULT_BIND_TIMEOUT,
    }
}

fn volume(name: &str, size: &str, zone: &str) -> Value {
    let required = json!({"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "zone", "operator": "In", "values": [zone]},
    ]}]});
    json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "nodeAffinity": {"required": required},
        },
        "status": {"phase": "Available"},
    })
}

fn claim(name: &str, class: &str) -> ObjectView<Claim> {
    let object = json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": class,
        "resources": {"requests": {"storage": "1Gi"}},
    }});
    ObjectView::of(stored("default", &object)).unwrap()
}

/// The bindings as `volume=claim` and the provisioned claims, or the reasons why the node does not fit.
#[track_caller]
fn check(volumes: &[Value], claims: &[(&str, &str)], expected: &str) {
    let plugin = plugin(volumes);
    let claims = PodClaims {
        bound: Vec::new(),
        delayed: claims.iter().map(|(name, class)| claim(name, class)).collect(),
    };
    let label = |name: &str| (name == "zone").then_some("a");
    let found = find_volumes(&plugin.storage, &plugin.assumed, &claims, ("n", &label));
    let text = match found {
        Err(rejection) => rejection.to_string(),
        Ok(volumes) => {
            let name = |object: &Stored| object.key().name().to_owned();
            let bindings = volumes.bindings.iter();
            let mut words: Vec<String> = bindings
                .map(|(volume, claim)| format!("{}={}", name(&volume.object), name(&claim.object)))
                .collect();
            words.extend(volumes.provisions.iter().map(|claim| name(&claim.object)));
            words.join(" ")
        }
    };
    assert_eq!(text, expected);
}

const CONFLICT: &str = "node(s) didn't find available persistent volumes to bind";

#[test]
fn the_smallest_volume_that_fits_is_bound() {
    let volumes = [volume("large", "5Gi", "a"), volume("small", "2Gi", "a")];
    check(&volumes, &[("c", "local")], "small=c");
    check(&[volume("tiny", "100Mi", "a")], &[("c", "local")], CONFLICT);
    check(&[volume("far", "2Gi", "b")], &[("c", "local")], CONFLICT);
}

#[test]
fn two_claims_need_two_volumes() {
    let volumes = [volume("v1", "1Gi", "a"), volume("v2", "1Gi", "a")];
    check(&volumes, &[("c", "local"), ("d", "local")], "v1=c v2=d");
    check(&volumes[..1], &[("c", "local"), ("d", "local")], CONFLICT);
}

#[test]
fn a_claim_without_a_volume_is_provisioned_if_its_class_can() {
    check(&[], &[("c", "disk")], "c");
    check(&[], &[("c", "local")], CONFLICT);
}

#[test]
fn a_volume_that_was_reserved_is_taken_until_it_is_released() {
    let plugin = plugin(&[volume("v", "1Gi", "a")]);
    let claims = PodClaims {
        bound: Vec::new(),
        delayed: vec![claim("c", "local")],
    };
    let label = |name: &str| (name == "zone").then_some("a");
    let find = || find_volumes(&plugin.storage, &plugin.assumed, &claims, ("n", &label));
    plugin.assumed.reserve("p", &find().unwrap(), "n");
    assert!(find().is_err());
    plugin.assumed.release("p");
    assert!(find().is_ok());
}

#[test]
fn a_negative_timeout_is_rejected() {
    let args = PluginArgs(json!({"bindTimeoutSeconds": -1}));
    assert!(build(&args, &Handle::default()).is_err());
}

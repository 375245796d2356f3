//! Hashes of the ConfigMaps and Secrets that a pod template uses. The hash is an annotation of the template, so that its
//! pods are replaced when one of them changes.

use serde_json::{Value, json};
use setpoint_api::Status;
use setpoint_kuttl::{ObjectClient, manifest};

use crate::api::labels;
use crate::enhance::add_template_annotation;
use crate::md5;

/// The kind and the name of a ConfigMap or Secret, in the order in which they are hashed.
type Dependency = (&'static str, String);

/// Adds the hashes to the objects of one task.
pub(crate) async fn add_hashes(objects: &mut [Value], client: &ObjectClient) -> Result<(), Status> {
    let of_task = objects.to_vec();
    for object in objects {
        let dependencies = dependencies(object);
        if dependencies.is_empty() {
            continue;
        }
        let namespace = object["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let mut digests = Vec::new();
        for (kind, name) in dependencies {
            let reference = json!({
                "apiVersion": "v1",
                "kind": kind,
                "metadata": {"name": name, "namespace": namespace},
            });
            let configuration = match of_task.iter().find(|object| is_same(object, &reference)) {
                Some(object) => Some(object.clone()),
                None => client.find(&reference).await?.map(applied_configuration),
            };
            digests.extend(configuration.map_or([0; 16], |object| digest(&object)));
        }
        let hash = md5::hex(&md5::digest(&digests));
        add_template_annotation(object, labels::DEPENDENCIES_HASH, &hash);
    }
    Ok(())
}

fn is_same(object: &Value, reference: &Value) -> bool {
    let same = |field: &str| object[field] == reference[field];
    let same_metadata = |field: &str| object["metadata"][field] == reference["metadata"][field];
    same("apiVersion") && same("kind") && same_metadata("name") && same_metadata("namespace")
}

/// What was applied last, without what the server added.
fn applied_configuration(object: Value) -> Value {
    let applied = object["metadata"]["annotations"][labels::LAST_APPLIED].as_str();
    let applied = applied.and_then(|text| serde_json::from_str(text).ok());
    applied.unwrap_or(object)
}

/// The dependencies of an object, sorted. One that is used twice is there twice, as in the hash of upstream.
fn dependencies(object: &Value) -> Vec<Dependency> {
    let mut found = Vec::new();
    for pointer in ["/spec/template/spec", "/spec/jobTemplate/spec/template/spec"] {
        let Some(spec) = object.pointer(pointer) else {
            continue;
        };
        let named = |value: &Value| value.as_str().map(str::to_owned);
        let items = |field: &str| spec[field].as_array().cloned().unwrap_or_default();
        for secret in items("imagePullSecrets") {
            found.extend(named(&secret["name"]).map(|name| ("Secret", name)));
        }
        for volume in items("volumes") {
            found.extend(named(&volume["configMap"]["name"]).map(|name| ("ConfigMap", name)));
            found.extend(named(&volume["secret"]["secretName"]).map(|name| ("Secret", name)));
        }
    }
    found.sort();
    found
}

/// The digest of an object's content and labels. Whatever changes by itself is left out.
fn digest(object: &Value) -> [u8; 16] {
    if object["metadata"]["annotations"]
        .get(labels::SKIP_HASH_CALCULATION)
        .is_some()
    {
        return [0; 16];
    }
    let stable = json!({"object": stable_fields(object)});
    md5::digest(manifest::to_yaml(&stable).unwrap_or_default().as_bytes())
}

/// The object without the fields that the server sets. Some of them have an empty value instead of being absent, since the
/// hash of upstream is that of such a text.
fn stable_fields(object: &Value) -> Value {
    const ABSENT: &[&str] = &[
        "clusterName",
        "continue",
        "creationTimestamp",
        "generateName",
        "generation",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    ];
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ABSENT {
            metadata.remove(*field);
        }
    }
    let metadata = &mut object["metadata"];
    metadata["annotations"] = json!({});
    for field in ["finalizers", "managedFields", "ownerReferences"] {
        metadata[field] = json!([]);
    }
    for field in ["deletionGracePeriodSeconds", "remainingItemCount"] {
        metadata[field] = 0.into();
    }
    object["apiVersion"] = "".into();
    object["kind"] = "".into();
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(left: &str, right: &str, is_equal: bool) {
        let [left, right] = [left, right].map(|text| digest(&manifest::parse_value(text).unwrap()));
        assert_eq!(left == right, is_equal);
    }

    /// TO7
    #[test]
    fn the_hash_is_of_the_content_and_the_labels() {
        let map = "{data: {a: b}, metadata: {name: a, uid: u, labels: {x: z}}}";
        check(
            map,
            "{data: {a: b}, metadata: {name: a, uid: v, annotations: {c: d}, labels: {x: z}}}",
            true,
        );
        check(map, "{data: {a: c}, metadata: {name: a, labels: {x: z}}}", false);
        check(map, "{data: {a: b}, metadata: {name: a, labels: {x: y}}}", false);
    }

    /// TO7. The value is that of KUDO 0.19 for the ConfigMap of its end-to-end case `dependencies-hash`.
    #[test]
    fn the_hash_is_that_of_upstream() {
        let map = manifest::parse_value(
            "{apiVersion: v1, kind: ConfigMap, data: {valueA: FancyValue, valueB: OtherFancyValue}, metadata: {name: configdata, namespace: any, uid: u, labels: {heritage: kudo, kudo.dev/instance: depop, kudo.dev/operator: dep-operator}, ownerReferences: [{name: depop}]}}",
        );
        let hash = md5::hex(&md5::digest(&digest(&map.unwrap())));
        assert_eq!(hash, "6fa812afe527bdb6c9a5fbfcba8193bb");
    }

    /// TO7
    #[test]
    fn a_dependency_may_be_left_out_of_the_hash() {
        let skipped = "metadata: {name: a, annotations: {kudo.dev/skip-hash-calculation: 'true'}}";
        check(
            &format!("{{data: {{a: b}}, {skipped}}}"),
            &format!("{{data: {{a: c}}, {skipped}}}"),
            true,
        );
    }

    /// TO7
    #[test]
    fn volumes_and_pull_secrets_are_dependencies() {
        let object = manifest::parse_value(
            "{spec: {template: {spec: {imagePullSecrets: [{name: s}], volumes: [{configMap: {name: c}}, {secret: {secretName: t}}, {emptyDir: {}}]}}}}",
        );
        let found = dependencies(&object.unwrap());
        let expected = [("ConfigMap", "c"), ("Secret", "s"), ("Secret", "t")];
        assert_eq!(found, expected.map(|(kind, name)| (kind, name.to_owned())));
    }
}

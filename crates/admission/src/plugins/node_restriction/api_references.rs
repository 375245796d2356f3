//! The references of a pod to other objects of the API, of which a mirror pod must have none: its node would gain access
//! to them. The rules are those of `HasAPIObjectReference` in `pkg/api/pod/util.go`.

use setpoint_schema::{Tree, fields};

use super::text;
use crate::review::has;

/// Volumes that need no object of the API, besides the secrets that some of them name.
const LOCAL_VOLUMES: [&str; 22] = [
    fields::AWS_ELASTIC_BLOCK_STORE,
    fields::AZURE_DISK,
    fields::CEPHFS,
    fields::CINDER,
    fields::DOWNWARD_API,
    fields::EMPTY_DIR,
    fields::FC,
    fields::FLEX_VOLUME,
    fields::FLOCKER,
    fields::GCE_PERSISTENT_DISK,
    fields::GIT_REPO,
    fields::HOST_PATH,
    fields::IMAGE,
    fields::ISCSI,
    fields::NFS,
    fields::PHOTON_PERSISTENT_DISK,
    fields::PORTWORX_VOLUME,
    fields::QUOBYTE,
    fields::RBD,
    fields::SCALE_IO,
    fields::STORAGEOS,
    fields::VSPHERE_VOLUME,
];

/// Volumes that need an object, and how the error names it.
const API_VOLUMES: [(&str, &str); 7] = [
    (fields::CONFIG_MAP, "configmaps (via configmap volumes)"),
    (fields::SECRET, "secrets (via secret volumes)"),
    (fields::CSI, "csidrivers (via CSI volumes)"),
    (fields::GLUSTERFS, "endpoints (via glusterFS volumes)"),
    (fields::PERSISTENT_VOLUME_CLAIM, "persistentvolumeclaims"),
    (
        fields::EPHEMERAL,
        "persistentvolumeclaims (via ephemeral volumes)",
    ),
    (fields::AZURE_FILE, "secrets (via azureFile volumes)"),
];

/// The sources of projected volumes that need an object.
const API_SOURCES: [(&str, &str); 5] = [
    (fields::CONFIG_MAP, "configmaps (via projected volumes)"),
    (fields::SECRET, "secrets (via projected volumes)"),
    (
        fields::SERVICE_ACCOUNT_TOKEN,
        "serviceaccounts (via projected volumes)",
    ),
    (fields::CLUSTER_TRUST_BUNDLE, "clustertrustbundles"),
    (fields::POD_CERTIFICATE, "podcertificates"),
];

/// The secret that a volume names, by the field of the volume.
const VOLUME_SECRETS: [(&str, &[&str]); 10] = [
    (fields::AZURE_FILE, &[fields::SECRET_NAME]),
    (fields::CEPHFS, &[fields::SECRET_REF, fields::NAME]),
    (fields::CINDER, &[fields::SECRET_REF, fields::NAME]),
    (fields::FLEX_VOLUME, &[fields::SECRET_REF, fields::NAME]),
    (fields::RBD, &[fields::SECRET_REF, fields::NAME]),
    (fields::SECRET, &[fields::SECRET_NAME]),
    (fields::SCALE_IO, &[fields::SECRET_REF, fields::NAME]),
    (fields::ISCSI, &[fields::SECRET_REF, fields::NAME]),
    (fields::STORAGEOS, &[fields::SECRET_REF, fields::NAME]),
    (fields::CSI, &[fields::NODE_PUBLISH_SECRET_REF, fields::NAME]),
];

/// The resource of the first reference that is found; an error for a volume of an unknown type.
pub(super) fn find(pod: &Tree) -> Result<Option<&'static str>, String> {
    let null = Tree::Null;
    let spec = pod.get(fields::SPEC).unwrap_or(&null);
    if !text(spec, &[fields::SERVICE_ACCOUNT_NAME]).is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    if names_secret(spec) {
        return Ok(Some("secrets"));
    }
    if names_config_map(spec) {
        return Ok(Some("configmaps"));
    }
    if !spec.items(fields::RESOURCE_CLAIMS).is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in spec.items(fields::VOLUMES) {
        let found = volume_reference(volume)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn names_secret(spec: &Tree) -> bool {
    let named = |item: &Tree| !text(item, &[fields::NAME]).is_empty();
    spec.items(fields::IMAGE_PULL_SECRETS).iter().any(named)
        || environment_names(spec, fields::SECRET_REF, fields::SECRET_KEY_REF)
        || spec.items(fields::VOLUMES).iter().any(|volume| {
            let in_volume = VOLUME_SECRETS.iter().any(|(field, path)| {
                volume
                    .get(field)
                    .is_some_and(|source| !text(source, path).is_empty())
            });
            in_volume || projects(volume, fields::SECRET)
        })
}

fn names_config_map(spec: &Tree) -> bool {
    environment_names(spec, fields::CONFIG_MAP_REF, fields::CONFIG_MAP_KEY_REF)
        || spec.items(fields::VOLUMES).iter().any(|volume| {
            !text(volume, &[fields::CONFIG_MAP, fields::NAME]).is_empty()
                || projects(volume, fields::CONFIG_MAP)
        })
}

/// Whether the environment of a container names an object, in `envFrom` or in `env`.
fn environment_names(spec: &Tree, from: &str, key: &str) -> bool {
    let lists = [
        fields::CONTAINERS,
        fields::INIT_CONTAINERS,
        fields::EPHEMERAL_CONTAINERS,
    ];
    let containers = lists.into_iter().flat_map(|list| spec.items(list));
    containers.into_iter().any(|container| {
        let all = container.items(fields::ENV_FROM).iter();
        let mut all = all.map(|source| text(source, &[from, fields::NAME]));
        let single = container.items(fields::ENV).iter();
        let mut single = single.map(|env| text(env, &[fields::VALUE_FROM, key, fields::NAME]));
        all.any(|name| !name.is_empty()) || single.any(|name| !name.is_empty())
    })
}

fn sources(volume: &Tree) -> &[Tree] {
    let projected = volume.get(fields::PROJECTED);
    projected.map_or(&[], |projected| projected.items(fields::SOURCES))
}

fn projects(volume: &Tree, field: &str) -> bool {
    let named = |source: &Tree| !text(source, &[field, fields::NAME]).is_empty();
    sources(volume).iter().any(named)
}

fn volume_reference(volume: &Tree) -> Result<Option<&'static str>, String> {
    let name = text(volume, &[fields::NAME]);
    if LOCAL_VOLUMES.iter().any(|field| has(volume, &[field])) {
        return Ok(None);
    }
    if let Some((_, resource)) = API_VOLUMES.iter().find(|(field, _)| has(volume, &[field])) {
        return Ok(Some(resource));
    }
    if !has(volume, &[fields::PROJECTED]) {
        return Err(format!("unknown volume type for volume  {name:?}"));
    }
    for source in sources(volume) {
        if let Some((_, resource)) = API_SOURCES.iter().find(|(field, _)| has(source, &[field])) {
            return Ok(Some(resource));
        }
        if !has(source, &[fields::DOWNWARD_API]) {
            return Err(format!("unknown source for projected volume {name:?}"));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use setpoint_schema::to_tree;

    use super::*;

    /// The fields of a pod's spec, and the resource that the pod references.
    #[track_caller]
    fn check(spec: Value, expected: Result<Option<&str>, &str>) {
        let pod = to_tree(&json!({"spec": spec})).unwrap();
        let found = find(&pod);
        assert_eq!(
            found.as_ref().map(|found| *found).map_err(String::as_str),
            expected
        );
    }

    #[track_caller]
    fn check_volume(source: Value, expected: Result<Option<&str>, &str>) {
        let mut volume = source;
        volume["name"] = "v".into();
        check(json!({"volumes": [volume]}), expected);
    }

    fn container(fields: Value) -> Value {
        json!({"containers": [{"name": "a"}], "initContainers": [fields]})
    }

    #[test]
    fn secrets_are_found_wherever_a_pod_names_them() {
        let secrets = || Ok(Some("secrets"));
        check(json!({"imagePullSecrets": [{"name": "s"}]}), secrets());
        check(
            container(json!({"envFrom": [{"secretRef": {"name": "s"}}]})),
            secrets(),
        );
        let env = json!({"env": [{"name": "e", "valueFrom": {"secretKeyRef": {"name": "s"}}}]});
        check(container(env), secrets());
        check_volume(json!({"secret": {"secretName": "s"}}), secrets());
        check_volume(json!({"azureFile": {"secretName": "s"}}), secrets());
        check_volume(json!({"csi": {"nodePublishSecretRef": {"name": "s"}}}), secrets());
        for field in [
            "cephfs",
            "cinder",
            "flexVolume",
            "rbd",
            "scaleIO",
            "iscsi",
            "storageos",
        ] {
            check_volume(json!({field: {"secretRef": {"name": "s"}}}), secrets());
        }
        check_volume(
            json!({"projected": {"sources": [{"secret": {"name": "s"}}]}}),
            secrets(),
        );
    }

    #[test]
    fn config_maps_are_found_wherever_a_pod_names_them() {
        let maps = || Ok(Some("configmaps"));
        check(
            container(json!({"envFrom": [{"configMapRef": {"name": "m"}}]})),
            maps(),
        );
        let env = json!({"env": [{"name": "e", "valueFrom": {"configMapKeyRef": {"name": "m"}}}]});
        check(container(env), maps());
        check_volume(json!({"configMap": {"name": "m"}}), maps());
        check_volume(
            json!({"projected": {"sources": [{"configMap": {"name": "m"}}]}}),
            maps(),
        );
    }

    #[test]
    fn other_references_are_named_by_their_resource() {
        check(json!({"serviceAccountName": "a"}), Ok(Some("serviceaccounts")));
        check(
            json!({"resourceClaims": [{"name": "c"}]}),
            Ok(Some("resourceclaims")),
        );
        for (volume, resource) in [
            (json!({"csi": {}}), "csidrivers (via CSI volumes)"),
            (json!({"secret": {}}), "secrets (via secret volumes)"),
            (json!({"glusterfs": {}}), "endpoints (via glusterFS volumes)"),
            (json!({"persistentVolumeClaim": {}}), "persistentvolumeclaims"),
            (
                json!({"ephemeral": {}}),
                "persistentvolumeclaims (via ephemeral volumes)",
            ),
            (
                json!({"projected": {"sources": [{"downwardAPI": {}}, {"serviceAccountToken": {}}]}}),
                "serviceaccounts (via projected volumes)",
            ),
            (
                json!({"projected": {"sources": [{"clusterTrustBundle": {}}]}}),
                "clustertrustbundles",
            ),
            (
                json!({"projected": {"sources": [{"podCertificate": {}}]}}),
                "podcertificates",
            ),
        ] {
            check_volume(volume, Ok(Some(resource)));
        }
    }

    #[test]
    fn a_pod_of_local_files_references_nothing() {
        check(container(json!({"env": [{"name": "e", "value": "v"}]})), Ok(None));
        for field in ["hostPath", "emptyDir", "nfs", "image", "downwardAPI"] {
            check_volume(json!({field: {}}), Ok(None));
        }
        check_volume(json!({"projected": {"sources": [{"downwardAPI": {}}]}}), Ok(None));
        check_volume(json!({"other": {}}), Err("unknown volume type for volume  \"v\""));
        check_volume(
            json!({"projected": {"sources": [{}]}}),
            Err("unknown source for projected volume \"v\""),
        );
    }
}

//! Volumes of a pod: each has a name and one source.

mod files;
mod projected;
mod remote;

use std::collections::{BTreeMap, BTreeSet};

use crate::core::persistent_volume_claim;
use crate::field::FieldRef;
use crate::meta;
use crate::shared::name;

use super::{PodContext, container, paths};

const TWO: &str = "may not specify more than 1 volume type";
const PATH_TYPES: &[&str] = &[
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// A volume type.
struct Source {
    field: &'static str,
    /// Its name in the error about a second source.
    second: &'static str,
    /// Its name in its own errors.
    first: &'static str,
    rule: fn(&FieldRef<'_>, &PodContext<'_>),
}

const fn source(field: &'static str, rule: fn(&FieldRef<'_>, &PodContext<'_>)) -> Source {
    Source {
        field,
        second: field,
        first: field,
        rule,
    }
}

/// The volume types in the order of validation. Some names in errors are specific to Kubernetes.
const SOURCES: &[Source] = &[
    source("emptyDir", |dir, _| validate_empty_dir(dir)),
    source("hostPath", |path, _| validate_host_path(path)),
    source("gitRepo", |repository, _| remote::validate_git(repository)),
    Source {
        first: "persistentDisk",
        ..source("gcePersistentDisk", |disk, _| {
            remote::validate_disk(disk, "pdName")
        })
    },
    source("awsElasticBlockStore", |disk, _| {
        remote::validate_disk(disk, "volumeID")
    }),
    source("secret", |secret, _| files::validate(secret, "secretName")),
    source("nfs", |share, _| remote::validate_nfs(share)),
    source("iscsi", |target, _| remote::validate_iscsi(target)),
    source("glusterfs", |share, _| require_all(share, &["endpoints", "path"])),
    source("flocker", |data, _| remote::validate_flocker(data)),
    source("persistentVolumeClaim", |claim, _| {
        require_all(claim, &["claimName"])
    }),
    source("rbd", |image, _| require_all(image, &["monitors", "image"])),
    source("cinder", |disk, _| remote::validate_cinder(disk)),
    Source {
        second: "cephFS",
        ..source("cephfs", |share, _| require_all(share, &["monitors"]))
    },
    source("quobyte", |volume, _| remote::validate_quobyte(volume)),
    Source {
        second: "downwarAPI",
        ..source("downwardAPI", |files, _| files::validate_downward(files))
    },
    source("fc", |target, _| remote::validate_fc(target)),
    source("flexVolume", |volume, _| remote::validate_flex(volume)),
    source("configMap", |map, _| files::validate(map, "name")),
    source("azureFile", |share, _| {
        require_all(share, &["secretName", "shareName"])
    }),
    source("vsphereVolume", |disk, _| require_all(disk, &["volumePath"])),
    source("photonPersistentDisk", |disk, _| require_all(disk, &["pdID"])),
    source("portworxVolume", |volume, _| require_all(volume, &["volumeID"])),
    source("azureDisk", |disk, _| remote::validate_azure_disk(disk)),
    source("storageos", |volume, _| remote::validate_storage_os(volume)),
    source("projected", projected::validate),
    source("scaleIO", |volume, _| {
        require_all(volume, &["gateway", "system", "volumeName"]);
    }),
    source("csi", |volume, _| remote::validate_csi(volume)),
    source("ephemeral", |volume, _| validate_ephemeral(volume)),
    source("image", validate_image),
];

/// Validates volumes. Returns the valid ones, by name.
pub(super) fn validate<'a>(
    volumes: &FieldRef<'a>,
    pod_context: &PodContext<'_>,
) -> BTreeMap<&'a str, FieldRef<'a>> {
    let mut fine = BTreeMap::new();
    let made = ephemeral_claim_names(volumes, pod_context);
    for volume in volumes.items() {
        let before = volume.errors().len();
        validate_source(&volume, pod_context);
        let name = volume.at("name");
        if name.require() {
            name::check(&name, name::check_dns1123_label);
        }
        if fine.contains_key(name.str()) {
            name.duplicate();
        }
        let claim = volume.at("persistentVolumeClaim").at("claimName");
        if volume.errors().len() == before {
            fine.insert(name.str(), volume);
        }
        if claim.is_set() && made.contains(claim.str()) {
            claim.invalid("must not reference a PVC that gets created for an ephemeral volume");
        }
    }
    fine
}

/// The names of claims that are created for ephemeral volumes. Unknown without the pod's name.
fn ephemeral_claim_names(volumes: &FieldRef<'_>, pod_context: &PodContext<'_>) -> BTreeSet<String> {
    let Some(pod) = pod_name(pod_context) else {
        return BTreeSet::new();
    };
    let made = volumes.items().filter(|volume| volume.at("ephemeral").is_set());
    made.map(|volume| format!("{pod}-{}", volume.at("name").str()))
        .collect()
}

fn pod_name<'a>(pod_context: &PodContext<'a>) -> Option<&'a str> {
    let name = pod_context.pod.as_ref()?.at("name").str();
    Some(name).filter(|name| !name.is_empty())
}

fn validate_source(volume: &FieldRef<'_>, pod_context: &PodContext<'_>) {
    let mut has_source = false;
    let is_given = |source: &&Source| {
        volume
            .value()
            .get(source.field)
            .is_some_and(|value| !value.is_null())
    };
    for source in SOURCES.iter().filter(is_given) {
        let value = volume.at(source.field);
        if has_source {
            volume.errors().at(source.second).forbidden(TWO);
        } else {
            (source.rule)(&value.with_errors(volume.errors().at(source.first)), pod_context);
            if source.field == "ephemeral" {
                validate_claim_name(volume, pod_context);
            }
        }
        if source.field == "iscsi" {
            remote::validate_iscsi_length(volume);
        }
        has_source = true;
    }
    if !has_source {
        volume.required("must specify a volume type");
    }
}

/// Each of these fields is required.
fn require_all(parent: &FieldRef<'_>, fields: &[&str]) {
    for field in fields {
        parent.at(field).require();
    }
}

fn validate_empty_dir(dir: &FieldRef<'_>) {
    let limit = dir.at("sizeLimit");
    if limit.quantity().is_some_and(|limit| limit.is_negative()) {
        limit.forbidden("SizeLimit field must be a valid resource quantity");
    }
}

fn validate_host_path(host: &FieldRef<'_>) {
    let (path, kind) = (host.at("path"), host.at("type"));
    if !path.require() {
        return;
    }
    paths::check_no_parent_steps(path.str(), path.errors());
    if kind.is_set() && !PATH_TYPES.contains(&kind.str()) {
        kind.not_supported(PATH_TYPES);
    }
}

fn validate_ephemeral(volume: &FieldRef<'_>) {
    let template = volume.at("volumeClaimTemplate");
    if !template.is_set() {
        return template.required("");
    }
    let metadata = template.at("metadata");
    meta::validate_annotations(&metadata.at("annotations"));
    meta::validate_labels(&metadata.at("labels"));
    for (name, field) in metadata.fields() {
        if field.is_set() && !matches!(name, "annotations" | "labels") {
            field.forbidden("cannot be set");
        }
    }
    persistent_volume_claim::validate_spec(&template.at("spec"));
}

/// The name of the claim for an ephemeral volume must be valid, too.
fn validate_claim_name(volume: &FieldRef<'_>, pod_context: &PodContext<'_>) {
    let name = volume.at("name");
    let Some(pod) = pod_name(pod_context).filter(|_| !name.is_empty()) else {
        return;
    };
    let claim = format!("{pod}-{}", name.str());
    for violation in name::check_dns1123_subdomain(&claim) {
        name.invalid(&format!("PVC name {claim:?}: {violation}"));
    }
}

fn validate_image(image: &FieldRef<'_>, pod_context: &PodContext<'_>) {
    if !pod_context.options.empty_images {
        image.at("reference").require();
    }
    image.at("pullPolicy").require_one_of(container::PULL_POLICIES);
}

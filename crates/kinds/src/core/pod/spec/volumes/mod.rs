//! The volumes of a pod: each has a name and one source.

mod files;
mod projected;
mod remote;

use std::collections::{BTreeMap, BTreeSet};

use crate::at::At;
use crate::core::persistent_volume_claim;
use crate::meta;
use crate::shared::name;

use super::{Around, container, paths};

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

/// A sort of volume.
struct Source {
    field: &'static str,
    /// What it is called where it is one too many.
    second: &'static str,
    /// What it is called in its own reports.
    first: &'static str,
    rule: fn(&At<'_>, &Around<'_>),
}

const fn source(field: &'static str, rule: fn(&At<'_>, &Around<'_>)) -> Source {
    Source {
        field,
        second: field,
        first: field,
        rule,
    }
}

/// The sorts in the order in which they are looked at. Some names in reports are Kubernetes' own.
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

/// Reports what is wrong with volumes. Those that are fine come back by their names.
pub(super) fn validate<'a>(volumes: &At<'a>, around: &Around<'_>) -> BTreeMap<&'a str, At<'a>> {
    let mut fine = BTreeMap::new();
    let made = made_claims(volumes, around);
    for volume in volumes.items() {
        let before = volume.errors().len();
        validate_source(&volume, around);
        let own = volume.at("name");
        if own.require() {
            name::check(&own, name::label);
        }
        if fine.contains_key(own.str()) {
            own.duplicate();
        }
        let claim = volume.at("persistentVolumeClaim").at("claimName");
        if volume.errors().len() == before {
            fine.insert(own.str(), volume);
        }
        if claim.is_set() && made.contains(claim.str()) {
            claim.invalid("must not reference a PVC that gets created for an ephemeral volume");
        }
    }
    fine
}

/// The claims that are made for the pod. Without its name they are not known.
fn made_claims(volumes: &At<'_>, around: &Around<'_>) -> BTreeSet<String> {
    let Some(pod) = pod_name(around) else {
        return BTreeSet::new();
    };
    let made = volumes.items().filter(|volume| volume.at("ephemeral").is_set());
    made.map(|volume| format!("{pod}-{}", volume.at("name").str()))
        .collect()
}

fn pod_name<'a>(around: &Around<'a>) -> Option<&'a str> {
    let name = around.pod.as_ref()?.at("name").str();
    Some(name).filter(|name| !name.is_empty())
}

fn validate_source(volume: &At<'_>, around: &Around<'_>) {
    let mut given = false;
    let is_given = |source: &&Source| {
        volume
            .value()
            .get(source.field)
            .is_some_and(|value| !value.is_null())
    };
    for source in SOURCES.iter().filter(is_given) {
        let place = volume.at(source.field);
        if given {
            volume.errors().at(source.second).forbidden(TWO);
        } else {
            (source.rule)(&place.reported_at(volume.errors().at(source.first)), around);
            if source.field == "ephemeral" {
                validate_claim_name(volume, around);
            }
        }
        if source.field == "iscsi" {
            remote::validate_iscsi_length(volume);
        }
        given = true;
    }
    if !given {
        volume.required("must specify a volume type");
    }
}

/// Something must stand in each field.
fn require_all(place: &At<'_>, fields: &[&str]) {
    for field in fields {
        place.at(field).require();
    }
}

fn validate_empty_dir(dir: &At<'_>) {
    let limit = dir.at("sizeLimit");
    if limit.quantity().is_some_and(|limit| limit.is_negative()) {
        limit.forbidden("SizeLimit field must be a valid resource quantity");
    }
}

fn validate_host_path(host: &At<'_>) {
    let (path, kind) = (host.at("path"), host.at("type"));
    if !path.require() {
        return;
    }
    paths::check_no_backsteps(path.str(), path.errors());
    if kind.is_set() && !PATH_TYPES.contains(&kind.str()) {
        kind.not_supported(PATH_TYPES);
    }
}

fn validate_ephemeral(volume: &At<'_>) {
    let template = volume.at("volumeClaimTemplate");
    if !template.is_set() {
        return template.required("");
    }
    let metadata = template.at("metadata");
    meta::validate_annotations(&metadata.at("annotations"));
    meta::validate_labels(&metadata.at("labels"));
    for (field, place) in metadata.fields() {
        if place.is_set() && !matches!(field, "annotations" | "labels") {
            place.forbidden("cannot be set");
        }
    }
    persistent_volume_claim::validate_spec(&template.at("spec"));
}

/// The claim that is made for the volume needs a name, too.
fn validate_claim_name(volume: &At<'_>, around: &Around<'_>) {
    let own = volume.at("name");
    let Some(pod) = pod_name(around).filter(|_| !own.is_empty()) else {
        return;
    };
    let claim = format!("{pod}-{}", own.str());
    for complaint in name::subdomain(&claim) {
        own.invalid(&format!("PVC name {claim:?}: {complaint}"));
    }
}

fn validate_image(image: &At<'_>, around: &Around<'_>) {
    if !around.waived.empty_images {
        image.at("reference").require();
    }
    image.at("pullPolicy").require_one_of(container::PULL_POLICIES);
}

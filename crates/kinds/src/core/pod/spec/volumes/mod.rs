//! Volumes of a pod: each has a name and one source.

mod files;
mod projected;
mod remote;

use std::collections::{BTreeMap, BTreeSet};

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, meta, name};

use crate::core::persistent_volume_claim;

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
    source(fields::EMPTY_DIR, |dir, _| validate_empty_dir(dir)),
    source(fields::HOST_PATH, |path, _| validate_host_path(path)),
    source(fields::GIT_REPO, |repository, _| remote::validate_git(repository)),
    Source {
        first: "persistentDisk",
        ..source(fields::GCE_PERSISTENT_DISK, |disk, _| {
            remote::validate_disk(disk, fields::PD_NAME)
        })
    },
    source(fields::AWS_ELASTIC_BLOCK_STORE, |disk, _| {
        remote::validate_disk(disk, fields::VOLUME_ID)
    }),
    source(fields::SECRET, |secret, _| {
        files::validate(secret, fields::SECRET_NAME)
    }),
    source(fields::NFS, |share, _| remote::validate_nfs(share)),
    source(fields::ISCSI, |target, _| remote::validate_iscsi(target)),
    source(fields::GLUSTERFS, |share, _| {
        require_all(share, &[fields::ENDPOINTS, fields::PATH])
    }),
    source(fields::FLOCKER, |data, _| remote::validate_flocker(data)),
    source(fields::PERSISTENT_VOLUME_CLAIM, |claim, _| {
        require_all(claim, &[fields::CLAIM_NAME])
    }),
    source(fields::RBD, |image, _| {
        require_all(image, &[fields::MONITORS, fields::IMAGE])
    }),
    source(fields::CINDER, |disk, _| remote::validate_cinder(disk)),
    Source {
        second: "cephFS",
        ..source(fields::CEPHFS, |share, _| require_all(share, &[fields::MONITORS]))
    },
    source(fields::QUOBYTE, |volume, _| remote::validate_quobyte(volume)),
    Source {
        second: "downwarAPI",
        ..source(fields::DOWNWARD_API, |files, _| files::validate_downward(files))
    },
    source(fields::FC, |target, _| remote::validate_fc(target)),
    source(fields::FLEX_VOLUME, |volume, _| remote::validate_flex(volume)),
    source(fields::CONFIG_MAP, |map, _| files::validate(map, fields::NAME)),
    source(fields::AZURE_FILE, |share, _| {
        require_all(share, &[fields::SECRET_NAME, fields::SHARE_NAME])
    }),
    source(fields::VSPHERE_VOLUME, |disk, _| {
        require_all(disk, &[fields::VOLUME_PATH])
    }),
    source(fields::PHOTON_PERSISTENT_DISK, |disk, _| {
        require_all(disk, &[fields::PD_ID])
    }),
    source(fields::PORTWORX_VOLUME, |volume, _| {
        require_all(volume, &[fields::VOLUME_ID])
    }),
    source(fields::AZURE_DISK, |disk, _| remote::validate_azure_disk(disk)),
    source(fields::STORAGEOS, |volume, _| remote::validate_storage_os(volume)),
    source(fields::PROJECTED, projected::validate),
    source(fields::SCALE_IO, |volume, _| {
        require_all(volume, &[fields::GATEWAY, fields::SYSTEM, fields::VOLUME_NAME]);
    }),
    source(fields::CSI, |volume, _| remote::validate_csi(volume)),
    source(fields::EPHEMERAL, |volume, _| validate_ephemeral(volume)),
    source(fields::IMAGE, validate_image),
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
        let name = volume.at(fields::NAME);
        if name.require() {
            name::check(&name, name::check_dns1123_label);
        }
        if fine.contains_key(name.str()) {
            name.duplicate();
        }
        let claim = volume.at(fields::PERSISTENT_VOLUME_CLAIM).at(fields::CLAIM_NAME);
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
    let made = volumes
        .items()
        .filter(|volume| volume.at(fields::EPHEMERAL).is_set());
    made.map(|volume| format!("{pod}-{}", volume.at(fields::NAME).str()))
        .collect()
}

fn pod_name<'a>(pod_context: &PodContext<'a>) -> Option<&'a str> {
    let name = pod_context.pod.as_ref()?.at(fields::NAME).str();
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
            if source.field == fields::EPHEMERAL {
                validate_claim_name(volume, pod_context);
            }
        }
        if source.field == fields::ISCSI {
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
    let limit = dir.at(fields::SIZE_LIMIT);
    if limit.quantity().is_some_and(|limit| limit.is_negative()) {
        limit.forbidden("SizeLimit field must be a valid resource quantity");
    }
}

fn validate_host_path(host: &FieldRef<'_>) {
    let (path, kind) = (host.at(fields::PATH), host.at(fields::TYPE));
    if !path.require() {
        return;
    }
    paths::check_no_parent_steps(path.str(), path.errors());
    if kind.is_set() && !PATH_TYPES.contains(&kind.str()) {
        kind.not_supported(PATH_TYPES);
    }
}

fn validate_ephemeral(volume: &FieldRef<'_>) {
    let template = volume.at(fields::VOLUME_CLAIM_TEMPLATE);
    if !template.is_set() {
        return template.required("");
    }
    let metadata = template.at(fields::METADATA);
    meta::validate_annotations(&metadata.at(fields::ANNOTATIONS));
    meta::validate_labels(&metadata.at(fields::LABELS));
    for (name, field) in metadata.fields() {
        if field.is_set() && !matches!(name, fields::ANNOTATIONS | fields::LABELS) {
            field.forbidden("cannot be set");
        }
    }
    persistent_volume_claim::validate_spec(&template.at(fields::SPEC));
}

/// The name of the claim for an ephemeral volume must be valid, too.
fn validate_claim_name(volume: &FieldRef<'_>, pod_context: &PodContext<'_>) {
    let name = volume.at(fields::NAME);
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
        image.at(fields::REFERENCE).require();
    }
    image
        .at(fields::PULL_POLICY)
        .require_one_of(container::PULL_POLICIES);
}

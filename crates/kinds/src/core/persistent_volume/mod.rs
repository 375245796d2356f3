//! PersistentVolume: storage that exists independently of pods.
//!
//! Start reading here, then [`spec`], then `sources` for the volume types.

mod sources;
pub(crate) mod spec;

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column, UNSET};
use setpoint_strategy::{
    FieldRef, Names, RequestFacts, Rules, Scope, Strategy, Subresource, go_dump, meta, top_level,
};

use crate::shared::{diff, node_selector};

/// The deprecated annotation for the storage class.
pub(super) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const MOUNT_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";
/// Volume types that support mount options.
const MOUNT_OPTION_TYPES: &[&str] = &[
    fields::GCE_PERSISTENT_DISK,
    fields::AWS_ELASTIC_BLOCK_STORE,
    fields::GLUSTERFS,
    fields::NFS,
    fields::RBD,
    fields::QUOBYTE,
    fields::ISCSI,
    fields::CINDER,
    fields::CEPHFS,
    fields::AZURE_FILE,
    fields::VSPHERE_VOLUME,
    fields::AZURE_DISK,
    fields::PHOTON_PERSISTENT_DISK,
];
/// Volume types that no supported driver provides: their field, their name in warnings, and since when.
const REMOVED_VOLUME_TYPES: &[(&str, &str, &str)] = &[
    (
        fields::CEPHFS,
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        fields::PHOTON_PERSISTENT_DISK,
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        fields::SCALE_IO,
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        fields::STORAGEOS,
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        fields::GLUSTERFS,
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    (
        fields::RBD,
        "rbd",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
];

#[derive(Debug)]
pub struct PersistentVolume;

impl Strategy for PersistentVolume {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "PersistentVolume");
    const NAMES: Names = Names::new("persistentvolumes", "persistentvolume").short(&["pv"]);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Capacity", |volume, _| {
            Cell::from(storage(&volume.at(fields::SPEC).at(fields::CAPACITY)))
        })
        .description("The capacity."),
        Column::text("Access Modes", |volume, _| {
            Cell::from(modes(&volume.at(fields::SPEC).at(fields::ACCESS_MODES)))
        })
        .description("The access modes."),
        Column::text("Reclaim Policy", |volume, _| {
            columns::or_empty(
                &volume
                    .at(fields::SPEC)
                    .at(fields::PERSISTENT_VOLUME_RECLAIM_POLICY),
            )
        })
        .description("The reclaim policy."),
        Column::text("Status", |volume, _| Cell::from(phase(volume))).description("The phase of the volume."),
        Column::text("Claim", |volume, _| {
            Cell::from(claim(&volume.at(fields::SPEC).at(fields::CLAIM_REF)))
        })
        .description("The bound claim."),
        Column::text("StorageClass", |volume, _| {
            let old = meta::entry(volume.value(), fields::ANNOTATIONS, CLASS_ANNOTATION);
            Cell::from(old.unwrap_or(volume.at(fields::SPEC).at(fields::STORAGE_CLASS_NAME).str()))
        })
        .description("The storage class."),
        Column::text("VolumeAttributesClass", |volume, _| {
            let class = volume.at(fields::SPEC).at(fields::VOLUME_ATTRIBUTES_CLASS_NAME);
            Cell::from(class.find_str().unwrap_or(UNSET))
        })
        .description("The volume attributes class."),
        Column::text("Reason", |volume, _| {
            columns::or_empty(&volume.at(fields::STATUS).at(fields::REASON))
        })
        .description("The reason of the current phase."),
        columns::AGE,
        Column::text("VolumeMode", |volume, _| {
            let mode = volume.at(fields::SPEC).at(fields::VOLUME_MODE);
            Cell::from(mode.find_str().unwrap_or(UNSET))
        })
        .wide()
        .description("The volume mode: file system or block device."),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT.returns_deleted();

    fn default_fields(volume: &mut Tree) {
        volume.child(fields::STATUS).set_default(fields::PHASE, "Pending");
        spec::set_defaults(volume.child(fields::SPEC));
    }

    fn prepare_create(volume: &mut Tree, facts: &RequestFacts) {
        top_level::drop(volume, fields::STATUS);
        let status = volume.child(fields::STATUS);
        status.set(&[fields::PHASE], "Pending");
        status.set(&[fields::LAST_PHASE_TRANSITION_TIME], meta::timestamp(facts.now));
    }

    // `lastPhaseTransitionTime` is set when the phase changes, unless the caller sets it.
    fn prepare_status(volume: &mut Tree, old: &Tree, facts: &RequestFacts) {
        top_level::keep_all_except(volume, old, &[fields::METADATA, fields::STATUS]);
        const MOMENT: &[&str] = &[fields::STATUS, fields::LAST_PHASE_TRANSITION_TIME];
        let phase = |volume: &Tree| volume.str_at(&[fields::STATUS, fields::PHASE]).map(str::to_owned);
        let (new, before) = (volume.at(MOMENT).cloned(), old.at(MOMENT).cloned());
        if phase(volume) != phase(old) {
            if new.is_none() || new == before {
                volume.set(MOMENT, meta::timestamp(facts.now));
            }
        } else if let (None, Some(before)) = (new, before) {
            volume.set(MOMENT, before);
        }
    }

    fn validate(volume: &FieldRef<'_>, _facts: &RequestFacts) {
        spec::validate(volume, false);
        validate_mount_options(volume);
    }

    fn validate_for_update(volume: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let lenient = has_bad_affinity(old);
        spec::validate(volume, lenient);
        validate_mount_options(volume);
        // Kubernetes validates the new object twice on an update, and reports both results.
        spec::validate(volume, lenient);
    }

    fn validate_update(volume: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_source(volume, old);
        let mode = volume.at(fields::SPEC).at(fields::VOLUME_MODE);
        mode.with_errors(volume.errors().at(fields::VOLUME_MODE))
            .immutable(&old.at(fields::SPEC).at(fields::VOLUME_MODE));
        validate_affinity(volume, old);
        let class = volume.at(fields::SPEC).at(fields::VOLUME_ATTRIBUTES_CLASS_NAME);
        if old
            .at(fields::SPEC)
            .at(fields::VOLUME_ATTRIBUTES_CLASS_NAME)
            .is_set()
            && !class.is_set()
        {
            class.forbidden("update from non-nil value to nil is forbidden");
        }
    }

    fn warnings(volume: &FieldRef<'_>, _old: Option<&FieldRef<'_>>) -> Vec<String> {
        let spec = volume.at(fields::SPEC);
        let mut warnings = Vec::new();
        for (annotation, advice) in [
            (
                CLASS_ANNOTATION,
                "deprecated since v1.8; use \"storageClassName\" attribute instead",
            ),
            (
                MOUNT_ANNOTATION,
                "deprecated since v1.31; use \"mountOptions\" attribute instead",
            ),
        ] {
            if meta::entry(volume.value(), fields::ANNOTATIONS, annotation).is_some() {
                warnings.push(format!("metadata.annotations[{annotation}]: {advice}"));
            }
        }
        if spec.at(fields::PERSISTENT_VOLUME_RECLAIM_POLICY).str() == "Recycle" {
            warnings.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
        }
        warnings.extend(node_selector::warnings(
            &spec.at(fields::NODE_AFFINITY).at(fields::REQUIRED),
        ));
        let gone = REMOVED_VOLUME_TYPES
            .iter()
            .filter(|(source, ..)| spec.at(source).is_set());
        warnings.extend(gone.map(|(_, shown, advice)| format!("spec.{shown}: {advice}")));
        warnings
    }
}

fn has_bad_affinity(old: &FieldRef<'_>) -> bool {
    node_selector::has_bad_values(
        &old.at(fields::SPEC)
            .at(fields::NODE_AFFINITY)
            .at(fields::REQUIRED),
    )
}

fn validate_mount_options(volume: &FieldRef<'_>) {
    let spec = volume.at(fields::SPEC);
    let mounted = MOUNT_OPTION_TYPES.iter().any(|source| spec.at(source).is_set());
    if !mounted && meta::entry(volume.value(), fields::ANNOTATIONS, MOUNT_ANNOTATION).is_some() {
        let annotations = volume.at(fields::METADATA).at(fields::ANNOTATIONS);
        let field = annotations.errors().at(MOUNT_ANNOTATION);
        field.forbidden("may not specify mount options for this volume type");
    }
}

/// The volume source is immutable, except that a secret for expansion may be added.
fn validate_source(volume: &FieldRef<'_>, old: &FieldRef<'_>) {
    const SECRET: &[&str] = &[fields::CSI, fields::CONTROLLER_EXPAND_SECRET_REF];
    let mut new = sources::source_fields(volume.at(fields::SPEC).value());
    let before = sources::source_fields(old.at(fields::SPEC).value());
    if before.get(fields::CSI).is_some() && before.at(SECRET).is_none() {
        new.take(SECRET);
    }
    if new.semantic_eq(&before) {
        return;
    }
    let Some(shape) = volume.at(fields::SPEC).shape().and_then(sources::shape) else {
        return;
    };
    let shown = |tree: &Tree| go_dump::dump_pretty(shape, tree);
    let field = volume.at(fields::SPEC).errors().at("persistentvolumesource");
    field.forbidden(&format!(
        "spec.persistentvolumesource is immutable after creation\n{}",
        diff::unified(&shown(&before), &shown(&new))
    ));
}

fn validate_affinity(volume: &FieldRef<'_>, old: &FieldRef<'_>) {
    let (new, before) = (
        volume.at(fields::SPEC).at(fields::NODE_AFFINITY),
        old.at(fields::SPEC).at(fields::NODE_AFFINITY),
    );
    if !before.is_set() || spec::with_new_labels(before.value(), new.value()).semantic_eq(new.value()) {
        return;
    }
    let field = new.with_errors(volume.errors().at(fields::NODE_AFFINITY));
    field.invalid_as(
        go_dump::GoDump(&new),
        "field is immutable, except for updating from beta label to GA",
    );
}

/// The storage capacity for the table.
pub(super) fn storage(amounts: &FieldRef<'_>) -> String {
    let amount = amounts.key("storage").str();
    if amount.is_empty() {
        "0".to_owned()
    } else {
        amount.to_owned()
    }
}

/// Access modes in their short form for the table.
pub(super) fn modes(modes: &FieldRef<'_>) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let set_modes: Vec<&str> = modes.strs().collect();
    let known = short.iter().filter(|(mode, _)| set_modes.contains(mode));
    known.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

/// The phase of a volume or a claim; `Terminating` while it is being deleted.
pub(super) fn phase<'a>(object: &FieldRef<'a>) -> &'a str {
    if object
        .at(fields::METADATA)
        .at(fields::DELETION_TIMESTAMP)
        .is_set()
    {
        return "Terminating";
    }
    object.at(fields::STATUS).at(fields::PHASE).str()
}

fn claim(claim: &FieldRef<'_>) -> String {
    if !claim.is_set() {
        return String::new();
    }
    format!(
        "{}/{}",
        claim.at(fields::NAMESPACE).str(),
        claim.at(fields::NAME).str()
    )
}

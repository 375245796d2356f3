//! PersistentVolume: storage that is there whether or not a pod uses it.
//!
//! Start reading here, then [`spec`] for what a volume is, then `sources` for the sorts of storage.

mod sources;
pub(crate) mod spec;

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use crate::at::At;
use crate::columns::{self, Column, UNSET};
use crate::shared::{diff, internal, node_selector};
use crate::strategy::{Facts, Names, Rules, Scope, Strategy, Subresource};
use crate::{meta, parts};

/// Says the class in old documents.
pub(super) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const MOUNT_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";
/// Sorts of storage that are mounted with options.
const MOUNTED: &[&str] = &[
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];
/// Sorts of storage that nobody serves any more: where they stand, what they are called, and since when.
const GONE: &[(&str, &str, &str)] = &[
    (
        "cephfs",
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
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
            Cell::from(storage(&volume.at("spec").at("capacity")))
        })
        .about("How big it is."),
        Column::text("Access Modes", |volume, _| {
            Cell::from(modes(&volume.at("spec").at("accessModes")))
        })
        .about("Who may use it at the same time."),
        Column::text("Reclaim Policy", |volume, _| {
            columns::or_empty(&volume.at("spec").at("persistentVolumeReclaimPolicy"))
        })
        .about("What becomes of it when it is released."),
        Column::text("Status", |volume, _| Cell::from(phase(volume))).about("Whether it is in use."),
        Column::text("Claim", |volume, _| {
            Cell::from(claim(&volume.at("spec").at("claimRef")))
        })
        .about("Who uses it."),
        Column::text("StorageClass", |volume, _| {
            let old = meta::entry(volume.value(), "annotations", CLASS_ANNOTATION);
            Cell::from(old.unwrap_or(volume.at("spec").at("storageClassName").str()))
        })
        .about("The class it is of."),
        Column::text("VolumeAttributesClass", |volume, _| {
            let class = volume.at("spec").at("volumeAttributesClassName");
            Cell::from(class.find_str().unwrap_or(UNSET))
        })
        .about("How it is set up."),
        Column::text("Reason", |volume, _| {
            columns::or_empty(&volume.at("status").at("reason"))
        })
        .about("Why it is in this state."),
        columns::AGE,
        Column::text("VolumeMode", |volume, _| {
            let mode = volume.at("spec").at("volumeMode");
            Cell::from(mode.find_str().unwrap_or(UNSET))
        })
        .wide()
        .about("Whether it is a file system or a device."),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        returns_deleted: true,
        ..Rules::DEFAULT
    };

    fn default_fields(volume: &mut Tree) {
        volume.child("status").fill("phase", "Pending");
        spec::fill(volume.child("spec"));
    }

    fn prepare_create(volume: &mut Tree, facts: &Facts) {
        parts::drop(volume, "status");
        let status = volume.child("status");
        status.set(&["phase"], "Pending");
        status.set(&["lastPhaseTransitionTime"], meta::moment(facts.now));
    }

    // The moment follows the phase, unless the caller says one.
    fn prepare_status(volume: &mut Tree, old: &Tree, facts: &Facts) {
        parts::keep_all_but(volume, old, &["metadata", "status"]);
        const MOMENT: &[&str] = &["status", "lastPhaseTransitionTime"];
        let phase = |volume: &Tree| volume.str_at(&["status", "phase"]).map(str::to_owned);
        let (new, before) = (volume.at(MOMENT).cloned(), old.at(MOMENT).cloned());
        if phase(volume) != phase(old) {
            if new.is_none() || new == before {
                volume.set(MOMENT, meta::moment(facts.now));
            }
        } else if let (None, Some(before)) = (new, before) {
            volume.set(MOMENT, before);
        }
    }

    fn validate(volume: &At<'_>) {
        spec::validate(volume, false);
        validate_mount_options(volume);
    }

    fn validate_again(volume: &At<'_>, old: &At<'_>) {
        let lenient = has_bad_affinity(old);
        spec::validate(volume, lenient);
        validate_mount_options(volume);
        // An update is asked the same twice, and both answers count.
        spec::validate(volume, lenient);
    }

    fn validate_update(volume: &At<'_>, old: &At<'_>) {
        validate_source(volume, old);
        let mode = volume.at("spec").at("volumeMode");
        mode.reported_at(volume.errors().at("volumeMode"))
            .immutable(&old.at("spec").at("volumeMode"));
        validate_affinity(volume, old);
        let class = volume.at("spec").at("volumeAttributesClassName");
        if old.at("spec").at("volumeAttributesClassName").is_set() && !class.is_set() {
            class.forbidden("update from non-nil value to nil is forbidden");
        }
    }

    fn warnings(volume: &At<'_>, _old: Option<&At<'_>>) -> Vec<String> {
        let spec = volume.at("spec");
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
            if meta::entry(volume.value(), "annotations", annotation).is_some() {
                warnings.push(format!("metadata.annotations[{annotation}]: {advice}"));
            }
        }
        if spec.at("persistentVolumeReclaimPolicy").str() == "Recycle" {
            warnings.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
        }
        warnings.extend(node_selector::warnings(&spec.at("nodeAffinity").at("required")));
        let gone = GONE.iter().filter(|(source, ..)| spec.at(source).is_set());
        warnings.extend(gone.map(|(_, shown, advice)| format!("spec.{shown}: {advice}")));
        warnings
    }
}

fn has_bad_affinity(old: &At<'_>) -> bool {
    node_selector::has_bad_values(&old.at("spec").at("nodeAffinity").at("required"))
}

fn validate_mount_options(volume: &At<'_>) {
    let spec = volume.at("spec");
    let mounted = MOUNTED.iter().any(|source| spec.at(source).is_set());
    if !mounted && meta::entry(volume.value(), "annotations", MOUNT_ANNOTATION).is_some() {
        let annotations = volume.at("metadata").at("annotations");
        let place = annotations.errors().at(MOUNT_ANNOTATION);
        place.forbidden("may not specify mount options for this volume type");
    }
}

/// What the storage is stays; only a secret to expand it with may be added.
fn validate_source(volume: &At<'_>, old: &At<'_>) {
    const SECRET: &[&str] = &["csi", "controllerExpandSecretRef"];
    let mut new = sources::only(volume.at("spec").value());
    let before = sources::only(old.at("spec").value());
    if before.get("csi").is_some() && before.at(SECRET).is_none() {
        new.take(SECRET);
    }
    if new.means_same(&before) {
        return;
    }
    let Some(shape) = volume.at("spec").shape().and_then(sources::shape) else {
        return;
    };
    let shown = |tree: &Tree| internal::pretty(shape, tree);
    let place = volume.at("spec").errors().at("persistentvolumesource");
    place.forbidden(&format!(
        "spec.persistentvolumesource is immutable after creation\n{}",
        diff::unified(&shown(&before), &shown(&new))
    ));
}

fn validate_affinity(volume: &At<'_>, old: &At<'_>) {
    let (new, before) = (
        volume.at("spec").at("nodeAffinity"),
        old.at("spec").at("nodeAffinity"),
    );
    if !before.is_set() || spec::with_new_labels(before.value(), new.value()).means_same(new.value()) {
        return;
    }
    let place = new.reported_at(volume.errors().at("nodeAffinity"));
    place.invalid_as(
        internal::Internal(&new),
        "field is immutable, except for updating from beta label to GA",
    );
}

/// An amount of storage as people read it.
pub(super) fn storage(amounts: &At<'_>) -> String {
    let amount = amounts.key("storage").str();
    if amount.is_empty() {
        "0".to_owned()
    } else {
        amount.to_owned()
    }
}

/// Access modes as people read them.
pub(super) fn modes(modes: &At<'_>) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let said: Vec<&str> = modes.strs().collect();
    let known = short.iter().filter(|(mode, _)| said.contains(mode));
    known.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

/// The phase of a volume or a claim; one that is being deleted has none of its own.
pub(super) fn phase<'a>(object: &At<'a>) -> &'a str {
    if object.at("metadata").at("deletionTimestamp").is_set() {
        return "Terminating";
    }
    object.at("status").at("phase").str()
}

fn claim(claim: &At<'_>) -> String {
    if !claim.is_set() {
        return String::new();
    }
    format!("{}/{}", claim.at("namespace").str(), claim.at("name").str())
}

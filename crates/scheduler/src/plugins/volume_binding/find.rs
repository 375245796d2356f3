//! [`find_volumes`]: the volumes for the claims of a pod on one node.

use setpoint_api::Stored;

use super::PodClaims;
use super::assumed::AssumedVolumes;
use crate::framework::Rejection;
use crate::plugins::storage::{Claim, ObjectView, Storage, Volume};
use crate::pod_info::selector::PodSelector;

const BIND_CONFLICT: &str = "node(s) didn't find available persistent volumes to bind";
const NODE_CONFLICT: &str = "node(s) didn't match PersistentVolume's node affinity";
const NOT_ENOUGH_SPACE: &str = "node(s) did not have enough free storage";
const VOLUME_MISSING: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A node by its name and labels.
type NodeLabels<'a> = (&'a str, &'a dyn Fn(&str) -> Option<&'a str>);

/// The volumes of a pod on one node.
#[derive(Debug, Clone, Default)]
pub(super) struct PodVolumes {
    /// Existing volumes to bind claims to.
    pub(super) bindings: Vec<(ObjectView<Volume>, ObjectView<Claim>)>,
    /// Claims to provision volumes for.
    pub(super) provisions: Vec<ObjectView<Claim>>,
}

/// Finds volumes for all claims; the rejection has every reason, in upstream's order.
pub(super) fn find_volumes(
    storage: &Storage,
    assumed: &AssumedVolumes,
    claims: &PodClaims,
    node: NodeLabels<'_>,
) -> Result<PodVolumes, Rejection> {
    let mut reasons = Vec::new();
    match check_bound(storage, &claims.bound, node) {
        Ok(()) => {}
        Err(NODE_CONFLICT) => reasons.push(NODE_CONFLICT),
        Err(other) => reasons.push(other),
    }
    let (volumes, conflict) = match find_delayed(storage, assumed, &claims.delayed, node)? {
        Ok(volumes) => (volumes, None),
        Err(reason) => (PodVolumes::default(), Some(reason)),
    };
    // A missing volume comes last, all others in the order in which they are checked.
    let at = usize::from(reasons.first() == Some(&NODE_CONFLICT));
    reasons.splice(at..at, conflict);
    let mut reasons = reasons.into_iter();
    match reasons.next() {
        None => Ok(volumes),
        Some(first) => Err(reasons.fold(Rejection::unresolvable(first), Rejection::and)),
    }
}

/// Checks that the volumes of bound claims exist and can be used on the node.
fn check_bound(
    storage: &Storage,
    claims: &[ObjectView<Claim>],
    node: NodeLabels<'_>,
) -> Result<(), &'static str> {
    for claim in claims {
        let Some(volume) = storage.find_volume(&claim.view.spec.volume_name) else {
            return Err(VOLUME_MISSING);
        };
        if !volume.view.matches_node(node.0, node.1) {
            return Err(NODE_CONFLICT);
        }
    }
    Ok(())
}

/// Finds volumes for the claims with delayed binding, or the reason why the node has none. An error is a failure.
fn find_delayed(
    storage: &Storage,
    assumed: &AssumedVolumes,
    claims: &[ObjectView<Claim>],
    node: NodeLabels<'_>,
) -> Result<Result<PodVolumes, &'static str>, Rejection> {
    let mut volumes = PodVolumes::default();
    let mut unbound: Vec<&ObjectView<Claim>> = Vec::new();
    for claim in claims {
        let annotated = claim
            .view
            .metadata
            .annotations
            .get(SELECTED_NODE)
            .map(String::as_str);
        let selected = assumed.selected_node(&claim.object).or(annotated.map(Into::into));
        match selected {
            Some(selected) if selected != node.0 => return Ok(Err(BIND_CONFLICT)),
            Some(_) => volumes.provisions.push(claim.clone()),
            None => unbound.push(claim),
        }
    }
    unbound.sort_by_key(|claim| claim.view.request());
    for claim in unbound {
        let chosen = &volumes.bindings;
        let is_chosen = |volume: &Stored| chosen.iter().any(|(own, _)| own.object.key() == volume.key());
        match find_matching(storage, assumed, claim, node, &is_chosen) {
            Some(volume) => volumes.bindings.push((volume, claim.clone())),
            None => volumes.provisions.push(claim.clone()),
        }
    }
    for claim in &volumes.provisions {
        if let Err(reason) = check_provision(storage, claim, node)? {
            return Ok(Err(reason));
        }
    }
    Ok(Ok(volumes))
}

/// The smallest volume that the claim can be bound to on the node, or the one that is reserved for the claim.
fn find_matching(
    storage: &Storage,
    assumed: &AssumedVolumes,
    claim: &ObjectView<Claim>,
    node: NodeLabels<'_>,
    is_chosen: &dyn Fn(&Stored) -> bool,
) -> Option<ObjectView<Volume>> {
    let mut smallest: Option<ObjectView<Volume>> = None;
    for volume in storage.volumes_of_class(claim.view.class()) {
        if is_chosen(&volume.object) || assumed.is_taken(&volume.object) {
            continue;
        }
        let is_reserved = volume.view.spec.claim_ref.is_some();
        if (is_reserved && !is_reserved_for(&volume.view, claim)) || !has_shape(&volume, &claim.view) {
            continue;
        }
        let fits_node = volume.view.matches_node(node.0, node.1);
        if is_reserved {
            return fits_node.then_some(volume);
        }
        if fits_node
            && is_available(&volume, &claim.view)
            && smallest
                .as_ref()
                .is_none_or(|smallest| volume.view.capacity() < smallest.view.capacity())
        {
            smallest = Some(volume);
        }
    }
    smallest
}

/// Whether the volume refers to the claim, by its uid if it has one.
fn is_reserved_for(volume: &Volume, claim: &ObjectView<Claim>) -> bool {
    volume.spec.claim_ref.as_ref().is_some_and(|reference| {
        let key = claim.object.key();
        reference.name == key.name()
            && reference.namespace == key.namespace()
            && (reference.uid.is_empty() || reference.uid == claim.object.uid())
    })
}

/// Whether size, mode and attributes of the volume are those that the claim requests.
fn has_shape(volume: &ObjectView<Volume>, claim: &Claim) -> bool {
    let (own, wanted) = (&volume.view.spec, &claim.spec);
    let mode = |mode: &Option<compact_str::CompactString>| match mode.as_deref() {
        Some("Block") => "Block",
        _ => "Filesystem",
    };
    volume.view.capacity() >= claim.request().unwrap_or(0)
        && mode(&own.volume_mode) == mode(&wanted.volume_mode)
        && own.volume_attributes_class_name.as_deref().unwrap_or_default()
            == wanted.volume_attributes_class_name.as_deref().unwrap_or_default()
        && !volume.object.header().deleting
}

/// Whether the volume is free, selected by the claim and has its access modes.
fn is_available(volume: &ObjectView<Volume>, claim: &Claim) -> bool {
    let selector = claim.spec.selector.clone();
    let is_selected = selector
        .is_none_or(|selector| PodSelector::from_raw(Some(selector)).matches(&volume.object.header().labels));
    let modes = &volume.view.spec.access_modes;
    volume.view.status.phase == "Available"
        && is_selected
        && claim.spec.access_modes.iter().all(|mode| modes.contains(mode))
}

/// Checks that the class of the claim can provision a volume for the node.
fn check_provision(
    storage: &Storage,
    claim: &ObjectView<Claim>,
    node: NodeLabels<'_>,
) -> Result<Result<(), &'static str>, Rejection> {
    let name = claim.view.class();
    if name.is_empty() {
        let reason = format!("no class for claim \"{}\"", claim.object.key());
        return Err(Rejection::error(reason));
    }
    let Some(class) = storage.find_class(name) else {
        return Err(Rejection::error(format!(
            "failed to find storage class \"{name}\""
        )));
    };
    let provisioner = class.view.provisioner.as_str();
    if matches!(provisioner, "" | NO_PROVISIONER) || !class.view.allows(node.1) {
        return Ok(Err(BIND_CONFLICT));
    }
    Ok(match has_capacity(storage, provisioner, claim, node) {
        true => Ok(()),
        false => Err(NOT_ENOUGH_SPACE),
    })
}

/// Whether a driver that publishes its capacity has enough for the claim on the node.
fn has_capacity(
    storage: &Storage,
    provisioner: &str,
    claim: &ObjectView<Claim>,
    node: NodeLabels<'_>,
) -> bool {
    let Some(size) = claim.view.request() else {
        return true;
    };
    let driver = storage.find_csi_driver(provisioner);
    if !driver.is_some_and(|driver| driver.view.spec.storage_capacity) {
        return true;
    }
    storage.capacities().iter().any(|capacity| {
        let view = &capacity.view;
        let topology = view
            .node_topology
            .clone()
            .map(|raw| PodSelector::from_raw(Some(raw)));
        view.storage_class_name == claim.view.class()
            && view.limit().is_some_and(|limit| limit >= size)
            && topology.is_some_and(|topology| topology.matches_labels(node.1))
    })
}

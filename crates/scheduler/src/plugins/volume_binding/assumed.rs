//! [`AssumedVolumes`]: volumes and claims of pods that are being bound, which the API does not show yet.

use compact_str::CompactString;
use parking_lot::Mutex;
use setpoint_api::Stored;

use super::find::PodVolumes;

/// The reservations, few at any time.
#[derive(Debug, Default)]
pub(super) struct AssumedVolumes {
    reservations: Mutex<Vec<Reservation>>,
}

/// The reservation of one pod.
#[derive(Debug)]
struct Reservation {
    /// The uid of the pod.
    pod: CompactString,
    /// The uids of volumes that claims are going to be bound to.
    volumes: Vec<CompactString>,
    /// The uids of claims whose volumes are going to be provisioned.
    claims: Vec<CompactString>,
    /// The node of the pod.
    node: CompactString,
}

impl AssumedVolumes {
    /// Whether a claim is going to be bound to the volume.
    pub(super) fn is_taken(&self, volume: &Stored) -> bool {
        let reservations = self.reservations.lock();
        reservations
            .iter()
            .any(|one| one.volumes.iter().any(|uid| uid == volume.uid()))
    }

    /// The node for which a volume of the claim is going to be provisioned.
    pub(super) fn selected_node(&self, claim: &Stored) -> Option<CompactString> {
        let reservations = self.reservations.lock();
        let mut reservations = reservations.iter();
        let found = reservations.find(|one| one.claims.iter().any(|uid| uid == claim.uid()))?;
        Some(found.node.clone())
    }

    pub(super) fn reserve(&self, pod: &str, volumes: &PodVolumes, node: &str) {
        let bindings = volumes.bindings.iter();
        let reservation = Reservation {
            pod: pod.into(),
            volumes: bindings.map(|(volume, _)| volume.object.uid().into()).collect(),
            claims: volumes
                .provisions
                .iter()
                .map(|claim| claim.object.uid().into())
                .collect(),
            node: node.into(),
        };
        self.reservations.lock().push(reservation);
    }

    pub(super) fn release(&self, pod: &str) {
        self.reservations.lock().retain(|one| one.pod != pod);
    }
}

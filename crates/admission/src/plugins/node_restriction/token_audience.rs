//! The audiences of the tokens that a pod uses: in its projected volumes, and for the CSI drivers of its volumes.

use setpoint_api::{GroupResource, Key, Stored};
use setpoint_registry_api::Review;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::meta;

use super::{find, text};
use crate::review::has;

/// The CSI drivers that mount volumes of the former built-in types.
const MIGRATED: [(&str, &str); 7] = [
    (fields::GCE_PERSISTENT_DISK, "pd.csi.storage.gke.io"),
    (fields::AWS_ELASTIC_BLOCK_STORE, "ebs.csi.aws.com"),
    (fields::CINDER, "cinder.csi.openstack.org"),
    (fields::AZURE_DISK, "disk.csi.azure.com"),
    (fields::AZURE_FILE, "file.csi.azure.com"),
    (fields::VSPHERE_VOLUME, "csi.vsphere.vmware.com"),
    (fields::PORTWORX_VOLUME, "pxd.portworx.com"),
];

/// Whether a volume of the pod uses tokens for this audience; an error if a volume that might cannot be resolved.
pub(super) fn is_used(review: &Review<'_>, pod: &Tree, audience: &str) -> Result<bool, String> {
    let volumes = pod
        .get(fields::SPEC)
        .map_or(&[][..], |spec| spec.items(fields::VOLUMES));
    let mut errors = Vec::new();
    for volume in volumes {
        let found = match projects(volume, audience) {
            true => Ok(true),
            false => driver_of_volume(review, pod, volume).and_then(|driver| match driver {
                Some(driver) => driver_requests(review, &driver, audience),
                None => Ok(false),
            }),
        };
        match found {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) if errors.contains(&error) => {}
            Err(error) => errors.push(error),
        }
    }
    match errors.as_slice() {
        [] => Ok(false),
        [error] => Err(error.clone()),
        errors => Err(format!("[{}]", errors.join(", "))),
    }
}

fn projects(volume: &Tree, audience: &str) -> bool {
    let projected = volume.get(fields::PROJECTED);
    let sources = projected.map_or(&[][..], |projected| projected.items(fields::SOURCES));
    sources.iter().any(|source| {
        let token = source
            .get(fields::SERVICE_ACCOUNT_TOKEN)
            .filter(|token| !token.is_null());
        token.is_some_and(|token| text(token, &[fields::AUDIENCE]) == audience)
    })
}

/// The CSI driver that mounts a volume of a pod.
fn driver_of_volume(review: &Review<'_>, pod: &Tree, volume: &Tree) -> Result<Option<String>, String> {
    if has(volume, &[fields::EPHEMERAL, fields::VOLUME_CLAIM_TEMPLATE]) {
        let claim = format!("{}-{}", meta::name(pod), text(volume, &[fields::NAME]));
        return driver_of_claim(review, &claim);
    }
    if has(volume, &[fields::PERSISTENT_VOLUME_CLAIM]) {
        let claim = text(volume, &[fields::PERSISTENT_VOLUME_CLAIM, fields::CLAIM_NAME]);
        return driver_of_claim(review, claim);
    }
    Ok(driver_of_source(volume))
}

/// The driver that a volume source names, in a pod or in a persistent volume.
fn driver_of_source(source: &Tree) -> Option<String> {
    if let Some(csi) = source.get(fields::CSI).filter(|csi| !csi.is_null()) {
        return Some(text(csi, &[fields::DRIVER]).to_owned()).filter(|driver| !driver.is_empty());
    }
    let migrated = MIGRATED.iter().find(|(field, _)| has(source, &[field]));
    migrated.map(|(_, driver)| (*driver).to_owned())
}

fn driver_of_claim(review: &Review<'_>, claim: &str) -> Result<Option<String>, String> {
    let stored = find(review, "persistentvolumeclaims", review.namespace, claim);
    let stored = stored.ok_or_else(|| format!("persistentvolumeclaim {claim:?} not found"))?;
    let stored = decode(&stored);
    let volume = text(&stored, &[fields::SPEC, fields::VOLUME_NAME]);
    let stored = find(review, "persistentvolumes", "", volume);
    let stored = stored.ok_or_else(|| format!("persistentvolume {volume:?} not found"))?;
    Ok(decode(&stored).get(fields::SPEC).and_then(driver_of_source))
}

/// Whether the kubelet passes tokens for this audience to a CSI driver.
fn driver_requests(review: &Review<'_>, driver: &str, audience: &str) -> Result<bool, String> {
    let drivers = GroupResource::new("storage.k8s.io", "csidrivers");
    let stored = review.find(&drivers, &Key::new("", driver));
    let stored = stored.ok_or_else(|| format!("csidriver.storage.k8s.io {driver:?} not found"))?;
    let stored = decode(&stored);
    let requests = stored.at(&[fields::SPEC, fields::TOKEN_REQUESTS]);
    let requests = requests.and_then(Tree::as_list).unwrap_or_default();
    Ok(requests
        .iter()
        .any(|request| text(request, &[fields::AUDIENCE]) == audience))
}

fn decode(stored: &Stored) -> Tree {
    stored.decode().unwrap_or_default()
}

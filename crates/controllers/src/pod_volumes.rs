//! The volumes of a pod that are PersistentVolumeClaims. They are decoded when needed, and not cached.

use serde::Deserialize;
use serde_json::Value;

/// The volumes of a pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodVolumes {
    pub(crate) spec: PodSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodSpec {
    pub(crate) volumes: Vec<Volume>,
}

/// A volume, limited to the sources that are claims.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Volume {
    pub(crate) name: String,
    persistent_volume_claim: Option<ClaimSource>,
    pub(crate) ephemeral: Option<EphemeralVolumeSource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSource {
    claim_name: String,
}

/// A generic ephemeral volume.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct EphemeralVolumeSource {
    pub(crate) volume_claim_template: Value,
}

impl Volume {
    /// The name of its claim, if it is one; that of an ephemeral volume is `<pod>-<volume>`.
    pub(crate) fn claim_name(&self, pod: &str) -> Option<String> {
        match (&self.persistent_volume_claim, &self.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => Some(format!("{pod}-{}", self.name)),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_volume_names_its_claim() {
        let volumes = json!({"spec": {"volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "empty", "emptyDir": {}},
        ]}});
        let pod: PodVolumes = serde_json::from_value(volumes).unwrap();
        let names: Vec<_> = pod
            .spec
            .volumes
            .iter()
            .map(|volume| volume.claim_name("web"))
            .collect();
        assert_eq!(
            names,
            [Some("mine".to_owned()), Some("web-scratch".to_owned()), None]
        );
    }
}

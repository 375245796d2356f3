//! The relations between pods and their ResourceClaims. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use setpoint_api::Stored;

use crate::pods;

/// The annotation that names the pod claim for which a claim was generated.
pub(super) const POD_CLAIM: &str = "resource.kubernetes.io/pod-claim-name";
/// The finalizer of an allocated claim.
pub(super) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// The most consumers of a claim.
const MAX_CONSUMERS: usize = 256;
/// The longest prefix of a generated name, without the server's suffix.
const MAX_NAME_PREFIX: usize = 57;

/// The claims of a pod. Few pods have any.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) spec: PodSpec,
    pub(super) status: PodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodSpec {
    pub(crate) resource_claims: Vec<PodClaim>,
}

/// An entry of a pod's `resourceClaims`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodClaim {
    pub(super) name: String,
    pub(super) resource_claim_name: Option<String>,
    pub(super) resource_claim_template_name: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodStatus {
    pub(super) resource_claim_statuses: Vec<PodClaimStatus>,
}

impl PodStatus {
    /// The names of the generated claims, by the entry of the pod that they are for.
    pub(super) fn generated_claims(&self) -> impl Iterator<Item = (&str, &str)> {
        let statuses = self.resource_claim_statuses.iter();
        statuses.filter_map(|one| Some((one.name.as_str(), one.resource_claim_name.as_deref()?)))
    }
}

/// The claim generated for an entry of a pod; without a name if none is needed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodClaimStatus {
    pub(super) name: String,
    pub(super) resource_claim_name: Option<String>,
}

/// A ResourceClaim, limited to its consumers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Claim {
    pub(super) metadata: Metadata,
    pub(super) status: ClaimStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    annotations: BTreeMap<String, String>,
    finalizers: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ClaimStatus {
    allocation: Option<IgnoredAny>,
    pub(super) reserved_for: Vec<Consumer>,
}

/// A consumer of a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Consumer {
    api_group: String,
    resource: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// The ResourceClaim of an entry of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimRef<'a> {
    /// It is referenced by name; users create it.
    Existing(&'a str),
    /// It was generated under this name, and must be owned by the pod.
    Generated(&'a str),
    /// It is to be generated from this template.
    FromTemplate(&'a str),
    /// None is needed.
    Nothing,
}

// === impl Pod ===

impl Pod {
    /// Reads a pod; `None` if it has no claims, as most have not.
    pub(crate) fn read(object: &Stored) -> Option<Self> {
        let mentions = str::from_utf8(object.json()).is_ok_and(|text| text.contains("\"resourceClaims\""));
        let pod: Self = mentions.then(|| object.decode().ok())??;
        (!pod.spec.resource_claims.is_empty()).then_some(pod)
    }

    pub(crate) fn claim_ref<'a>(&'a self, claim: &'a PodClaim) -> ClaimRef<'a> {
        if let Some(name) = &claim.resource_claim_name {
            return ClaimRef::Existing(name);
        }
        let Some(template) = &claim.resource_claim_template_name else {
            return ClaimRef::Nothing;
        };
        let generated = self
            .status
            .resource_claim_statuses
            .iter()
            .find(|generated| generated.name == claim.name);
        match generated.map(|generated| &generated.resource_claim_name) {
            None => ClaimRef::FromTemplate(template),
            Some(None) => ClaimRef::Nothing,
            Some(Some(name)) => ClaimRef::Generated(name),
        }
    }

    /// The names of the claims that it references or that were generated for it.
    pub(super) fn claims(&self) -> impl Iterator<Item = &str> {
        let refs = self
            .spec
            .resource_claims
            .iter()
            .map(|claim| self.claim_ref(claim));
        refs.filter_map(|refs| match refs {
            ClaimRef::Existing(name) | ClaimRef::Generated(name) => Some(name),
            ClaimRef::FromTemplate(_) | ClaimRef::Nothing => None,
        })
    }

    /// The templates of its claims.
    pub(super) fn templates(&self) -> impl Iterator<Item = &str> {
        let claims = self.spec.resource_claims.iter();
        claims.filter_map(|claim| claim.resource_claim_template_name.as_deref())
    }
}

/// Whether a pod will not run any more, or never will.
pub(super) fn is_done(object: &Arc<Stored>) -> bool {
    let pod = pods::Pod::read(object.clone());
    pod.is_finished() || (pod.is_deleting() && pod.view().node.is_empty())
}

/// The name prefix of a claim generated for a pod. Long names are cut in both parts.
pub(super) fn name_prefix(pod: &str, claim: &str) -> String {
    let whole = format!("{pod}-{claim}-");
    if whole.len() <= MAX_NAME_PREFIX {
        return whole;
    }
    let cut = |part: &str| part[..part.len() * MAX_NAME_PREFIX / whole.len()].to_owned();
    format!("{}-{}", cut(pod), cut(claim))
}

// === impl Claim ===

impl Claim {
    pub(super) fn is_allocated(&self) -> bool {
        self.status.allocation.is_some()
    }

    pub(super) fn is_protected(&self) -> bool {
        self.metadata.finalizers.iter().any(|own| own == FINALIZER)
    }

    /// Whether it was generated for this entry of its pod.
    pub(super) fn was_generated_for(&self, claim: &str) -> bool {
        self.metadata
            .annotations
            .get(POD_CLAIM)
            .is_some_and(|own| own == claim)
    }

    /// Whether the pod of this uid should be added as a consumer.
    pub(super) fn lacks_consumer(&self, uid: &str) -> bool {
        let consumers = &self.status.reserved_for;
        let is_noted = consumers.iter().any(|consumer| consumer.uid == uid);
        self.is_allocated() && !is_noted && consumers.len() < MAX_CONSUMERS
    }
}

impl Consumer {
    pub(super) fn is_pod(&self) -> bool {
        self.api_group.is_empty() && self.resource == "pods"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(claim: (Option<&str>, Option<&str>), generated: Option<Option<&str>>, expected: ClaimRef<'_>) {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let claim = PodClaim {
            name: "gpu".to_owned(),
            resource_claim_name: text(claim.0),
            resource_claim_template_name: text(claim.1),
        };
        let mut pod = Pod::default();
        pod.status.resource_claim_statuses = Vec::from_iter(generated.map(|generated| PodClaimStatus {
            name: "gpu".to_owned(),
            resource_claim_name: text(generated),
        }));
        assert_eq!(pod.claim_ref(&claim), expected);
    }

    #[test]
    fn a_claim_is_existing_generated_or_from_a_template() {
        check((Some("mine"), None), None, ClaimRef::Existing("mine"));
        check((None, Some("template")), None, ClaimRef::FromTemplate("template"));
        check(
            (None, Some("template")),
            Some(Some("made")),
            ClaimRef::Generated("made"),
        );
        check((None, Some("template")), Some(None), ClaimRef::Nothing);
        check((None, None), None, ClaimRef::Nothing);
    }

    #[test]
    fn long_names_keep_both_parts() {
        assert_eq!(name_prefix("web", "gpu"), "web-gpu-");
        let base = name_prefix(&"p".repeat(60), &"c".repeat(60));
        assert!(base.len() <= MAX_NAME_PREFIX && base.contains("p-c"), "{base}");
    }
}

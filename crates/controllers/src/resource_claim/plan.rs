//! What pods and their resource claims need of each other: pure.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use setpoint_api::Stored;

use crate::pods::Phase;

/// Says for which of its pod's claims a claim was made.
pub(super) const POD_CLAIM: &str = "resource.kubernetes.io/pod-claim-name";
/// Keeps a claim that is allocated.
pub(super) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// As many consumers as a claim may have.
const MOST_CONSUMERS: usize = 256;
/// What is left of a name for what is not made up by the server.
const NAME_BASE: usize = 57;

/// A pod, as far as its claims go.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) spec: PodSpec,
    pub(super) status: PodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodSpec {
    pub(crate) node_name: String,
    pub(crate) resource_claims: Vec<PodClaim>,
}

/// A claim that a pod names, or wants made.
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
    pub(super) phase: Phase,
    pub(super) resource_claim_statuses: Vec<MadeClaim>,
}

/// The claim that was made for one that a pod wanted; none if it turned out not to be needed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct MadeClaim {
    pub(super) name: String,
    pub(super) resource_claim_name: Option<String>,
}

/// A resource claim, as far as who uses it goes.
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

/// Who uses a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Consumer {
    api_group: String,
    resource: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// What became of a claim that a pod wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted<'a> {
    /// It is there, or somebody else must make it, under this name.
    Named(&'a str),
    /// It was made, under this name, and must be the pod's own.
    Made(&'a str),
    /// It is to be made after this template.
    ToMake(&'a str),
    /// There is no need for it.
    Nothing,
}

// === impl Pod ===

impl Pod {
    /// What stands in a pod; nothing if it names no claims, as most do not.
    pub(crate) fn read(object: &Stored) -> Option<Self> {
        let mentions = str::from_utf8(object.json()).is_ok_and(|text| text.contains("\"resourceClaims\""));
        let pod: Self = mentions.then(|| object.decode().ok())??;
        (!pod.spec.resource_claims.is_empty()).then_some(pod)
    }

    pub(crate) fn wants<'a>(&'a self, claim: &'a PodClaim) -> Wanted<'a> {
        if let Some(name) = &claim.resource_claim_name {
            return Wanted::Named(name);
        }
        let Some(template) = &claim.resource_claim_template_name else {
            return Wanted::Nothing;
        };
        let made = self
            .status
            .resource_claim_statuses
            .iter()
            .find(|made| made.name == claim.name);
        match made.map(|made| &made.resource_claim_name) {
            None => Wanted::ToMake(template),
            Some(None) => Wanted::Nothing,
            Some(Some(name)) => Wanted::Made(name),
        }
    }

    /// The names of the claims it uses or had made.
    pub(super) fn claims(&self) -> impl Iterator<Item = &str> {
        let wanted = self.spec.resource_claims.iter().map(|claim| self.wants(claim));
        wanted.filter_map(|wanted| match wanted {
            Wanted::Named(name) | Wanted::Made(name) => Some(name),
            Wanted::ToMake(_) | Wanted::Nothing => None,
        })
    }

    /// The templates after which its claims are made.
    pub(super) fn templates(&self) -> impl Iterator<Item = &str> {
        let claims = self.spec.resource_claims.iter();
        claims.filter_map(|claim| claim.resource_claim_template_name.as_deref())
    }
}

/// Whether a pod will not run any more, or never will.
pub(super) fn is_done(object: &Stored) -> bool {
    let pod: Pod = object.decode().unwrap_or_default();
    let is_finished = matches!(pod.status.phase, Phase::Succeeded | Phase::Failed);
    is_finished || (object.header().deleting && pod.spec.node_name.is_empty())
}

/// The beginning of the name of a claim that is made for a pod. Of long names both parts are kept as far as they fit.
pub(super) fn name_base(pod: &str, claim: &str) -> String {
    let whole = format!("{pod}-{claim}-");
    if whole.len() <= NAME_BASE {
        return whole;
    }
    let cut = |part: &str| part[..part.len() * NAME_BASE / whole.len()].to_owned();
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

    /// Whether it was made for this claim of its pod.
    pub(super) fn is_made_for(&self, claim: &str) -> bool {
        self.metadata
            .annotations
            .get(POD_CLAIM)
            .is_some_and(|own| own == claim)
    }

    /// Whether the pod of this uid should be noted as its consumer.
    pub(super) fn lacks_consumer(&self, uid: &str) -> bool {
        let consumers = &self.status.reserved_for;
        let is_noted = consumers.iter().any(|consumer| consumer.uid == uid);
        self.is_allocated() && !is_noted && consumers.len() < MOST_CONSUMERS
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
    fn check(claim: (Option<&str>, Option<&str>), made: Option<Option<&str>>, expected: Wanted<'_>) {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let claim = PodClaim {
            name: "gpu".to_owned(),
            resource_claim_name: text(claim.0),
            resource_claim_template_name: text(claim.1),
        };
        let mut pod = Pod::default();
        pod.status.resource_claim_statuses = Vec::from_iter(made.map(|made| MadeClaim {
            name: "gpu".to_owned(),
            resource_claim_name: text(made),
        }));
        assert_eq!(pod.wants(&claim), expected);
    }

    #[test]
    fn a_claim_is_named_made_or_to_be_made() {
        check((Some("mine"), None), None, Wanted::Named("mine"));
        check((None, Some("template")), None, Wanted::ToMake("template"));
        check((None, Some("template")), Some(Some("made")), Wanted::Made("made"));
        check((None, Some("template")), Some(None), Wanted::Nothing);
        check((None, None), None, Wanted::Nothing);
    }

    #[test]
    fn long_names_keep_both_parts() {
        assert_eq!(name_base("web", "gpu"), "web-gpu-");
        let base = name_base(&"p".repeat(60), &"c".repeat(60));
        assert!(base.len() <= NAME_BASE && base.contains("p-c"), "{base}");
    }
}

//! View of a CustomResourceDefinition: its names and conditions, without its schemas.

use serde::Deserialize;

use setpoint_api::Stored;
use setpoint_strategy::custom::approval::{ApprovalState, approval};

/// The condition that reports whether the API is approved.
pub(crate) const APPROVAL_CONDITION: &str = "KubernetesAPIApprovalPolicyConformant";

/// A CustomResourceDefinition without its schemas.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Crd {
    pub(crate) metadata: Metadata,
    pub(crate) spec: Spec,
    pub(crate) status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Metadata {
    pub(crate) annotations: Annotations,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Annotations {
    /// Where the API was approved: see [`approval`].
    #[serde(rename = "api-approved.kubernetes.io")]
    pub(crate) api_approved: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Spec {
    pub(crate) group: String,
    pub(crate) names: Names,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) accepted_names: Names,
    #[serde(deserialize_with = "nullable")]
    pub(crate) conditions: Vec<Condition>,
}

/// The names of a custom resource, requested or accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Names {
    pub(crate) plural: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) singular: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) short_names: Vec<String>,
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) list_kind: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) categories: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) last_transition_time: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
}

impl Crd {
    pub(crate) fn is_established(&self) -> bool {
        self.is("Established")
    }

    /// Whether all requested names are accepted.
    pub(crate) fn is_accepted(&self) -> bool {
        self.is("NamesAccepted")
    }

    /// Whether its kinds are served: from the acceptance of its names on, so that a client that reads `Established` can
    /// use them at once.
    pub(crate) fn is_served(&self) -> bool {
        self.is_accepted() || self.is_established()
    }

    /// Whether its status needs no change.
    pub(crate) fn is_up_to_date(&self) -> bool {
        let is_same = |own: &Condition, (status, reason, message): &(&str, &str, String)| {
            (own.status.as_str(), own.reason.as_str(), &own.message) == (*status, *reason, message)
        };
        self.is_accepted()
            && self.is_established()
            && self.status.accepted_names == self.spec.names
            && self.approval().is_none_or(|approval| {
                let own = self.condition(APPROVAL_CONDITION);
                own.is_some_and(|own| is_same(own, &approval))
            })
    }

    /// Status, reason and message of the condition that CRDs in groups of the Kubernetes community have.
    pub(crate) fn approval(&self) -> Option<(&'static str, &'static str, String)> {
        let annotation = &self.metadata.annotations.api_approved;
        let (state, message) = approval(&self.spec.group, annotation)?;
        let (status, reason) = match state {
            ApprovalState::Approved => ("True", "ApprovedAnnotation"),
            ApprovalState::Bypassed => ("False", "UnapprovedAnnotation"),
            ApprovalState::Missing => ("False", "MissingAnnotation"),
            ApprovalState::Invalid => ("False", "InvalidAnnotation"),
        };
        Some((status, reason, message))
    }

    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status
            .conditions
            .iter()
            .find(|condition| condition.kind == kind)
    }

    fn is(&self, condition: &str) -> bool {
        self.condition(condition).is_some_and(|own| own.status == "True")
    }

    /// The properties that determine the served kinds: while these are the same, the kinds are.
    pub(crate) fn fingerprint(&self, object: &Stored) -> String {
        let header = object.header();
        format!(
            "{} {} {} {:?}",
            header.uid, header.generation, header.deleting, self.status.accepted_names
        )
    }
}

fn nullable<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

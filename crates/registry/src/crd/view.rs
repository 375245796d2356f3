//! View of a CustomResourceDefinition: its names and conditions, without its schemas.

use serde::Deserialize;

use setpoint_api::Stored;

/// A CustomResourceDefinition without its schemas.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Crd {
    pub(crate) spec: Spec,
    pub(crate) status: Status,
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
        self.is_accepted() && self.is_established() && self.status.accepted_names == self.spec.names
    }

    fn is(&self, condition: &str) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|one| one.kind == condition && one.status == "True")
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

//! What the registry reads of a definition: its names and its conditions, not its schemas.

use serde::Deserialize;

use setpoint_api::Stored;

/// A definition, as far as its schemas do not matter.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Definition {
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

/// What a kind is called, or may be called.
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

impl Definition {
    pub(crate) fn is_established(&self) -> bool {
        self.is("Established")
    }

    /// Whether all that it asks to be called is accepted now.
    pub(crate) fn is_accepted(&self) -> bool {
        self.is("NamesAccepted")
    }

    /// Whether its kinds are served: from the moment on that its names are its own, so that whoever reads that it is
    /// established finds them.
    pub(crate) fn is_served(&self) -> bool {
        self.is_accepted() || self.is_established()
    }

    /// Whether there is nothing to say about its names any more.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_accepted() && self.is_established() && self.status.accepted_names == self.spec.names
    }

    fn is(&self, condition: &str) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|one| one.kind == condition && one.status == "True")
    }

    /// What decides about what is served: as long as this is the same, the kinds are.
    pub(crate) fn served_as(&self, object: &Stored) -> String {
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

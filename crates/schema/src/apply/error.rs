//! Errors of server-side apply.

use super::managed_fields::ManagerId;

/// Why a configuration is not applied: one variant for each response of the API server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A bad request with this message.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsNotNil,
    /// The configuration does not fit the shape. The reference server reports an internal error without a reason, with
    /// this message.
    #[error("failed to create typed patch object ({object}): {why}")]
    Untyped { object: String, why: String },
    /// Other managers own fields that would change: a conflict with this message, and one cause for each field.
    #[error("{0}")]
    Conflicts(Conflicts),
}

/// The fields that would change though other managers own them; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts {
    /// Sorted by owner; the paths of an owner in the order of its field set.
    pub list: Vec<Conflict>,
}

/// One conflicting path and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub owner: ManagerId,
    /// Such as `.spec.containers[name="c"].image`.
    pub path: String,
}

impl Conflict {
    /// The message of the status cause; its field is the path, its reason `FieldManagerConflict`.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.owner)
    }
}

impl std::fmt::Display for Conflicts {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let [only] = self.list.as_slice() {
            return write!(
                text,
                "Apply failed with 1 conflict: {}: {}",
                only.message(),
                only.path
            );
        }
        write!(text, "Apply failed with {} conflicts: ", self.list.len())?;
        for (at, owned) in self
            .list
            .chunk_by(|left, right| left.owner == right.owner)
            .enumerate()
        {
            let line_break = if at == 0 { "" } else { "\n" };
            write!(text, "{line_break}conflicts with {}:", owned[0].owner)?;
            for conflict in owned {
                write!(text, "\n- {}", conflict.path)?;
            }
        }
        Ok(())
    }
}

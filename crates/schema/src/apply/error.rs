//! Why something is not applied.

use super::managers::Id;

/// Why a document is not applied: one variant for each answer a caller gives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A bad request, in these words.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsGiven,
    /// The document does not fit the shape. The reference server counts this as its own failure: an internal error
    /// without a reason, in these words.
    #[error("failed to create typed patch object ({object}): {why}")]
    Untyped { object: String, why: String },
    /// Others own what the document would change: a conflict, in these words, with one cause for each.
    #[error("{0}")]
    Conflicts(Conflicts),
}

/// What a document would change though others own it; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts {
    /// Sorted by owner; the paths of an owner in the order of its set.
    pub list: Vec<Conflict>,
}

/// One path and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub owner: Id,
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

//! The check among the other rules of a write.

use setpoint_api::Status;
use setpoint_registry::{Admit, Operation, Review, Verdict};
use setpoint_schema::{Tree, to_tree};

use super::{Escalation, Write};

/// Other rules, with the check of what is granted right after those that change the object.
///
/// It comes before the kind's own rules: whoever may not grant something is not told what else is wrong with it.
#[derive(Debug)]
pub struct Guard<A> {
    escalation: Escalation,
    rules: A,
}

impl Escalation {
    /// The same rules, guarded.
    pub fn guard<A: Admit>(self, rules: A) -> Guard<A> {
        Guard {
            escalation: self,
            rules,
        }
    }

    fn check_review(&self, review: &Review<'_>) -> Result<(), Status> {
        let writes = matches!(review.operation, Operation::Create | Operation::Update);
        let (true, Some(new), None) = (writes, review.object.as_deref(), review.subresource) else {
            return Ok(());
        };
        if !self.concerns(review.user, &review.kind.gvr.group) {
            return Ok(());
        }
        let old: Option<Tree> = review
            .old
            .map(|old| old.decode::<serde_json::Value>())
            .transpose()
            .map_err(Status::internal)?
            .and_then(|old| to_tree(&old).ok());
        self.check_write(&Write {
            user: review.user,
            resource: review.kind.gvr.group_resource(),
            namespace: review.namespace,
            name: review.name,
            new,
            old: old.as_ref(),
        })
    }
}

impl<A: Admit> Admit for Guard<A> {
    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> Verdict<'a> {
        Box::pin(async move {
            self.rules.mutate(review).await?;
            self.escalation.check_review(review)
        })
    }

    fn validate<'a>(&'a self, review: &'a mut Review<'_>) -> Verdict<'a> {
        self.rules.validate(review)
    }
}

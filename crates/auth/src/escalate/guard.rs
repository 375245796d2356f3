//! The escalation check as a step of admission.

use setpoint_api::Status;
use setpoint_registry_api::{Admit, AdmitFuture, Operation, Review};
use setpoint_schema::{Tree, to_tree};

use super::{EscalationCheck, Write};

/// Wraps admission with the escalation check, right after the mutating plugins.
///
/// It runs before the kind's validation: a user that may not grant something does not see the validation errors.
#[derive(Debug)]
pub struct Guard<A> {
    escalation: EscalationCheck,
    rules: A,
}

impl EscalationCheck {
    /// Wraps admission with this check.
    pub fn guard<A: Admit>(self, rules: A) -> Guard<A> {
        Guard {
            escalation: self,
            rules,
        }
    }

    async fn check_review(&self, review: &Review<'_>) -> Result<(), Status> {
        let writes = matches!(review.operation, Operation::Create | Operation::Update);
        let (true, Some(new), None) = (writes, review.object.as_deref(), review.subresource) else {
            return Ok(());
        };
        if !self.applies_to(review.user, &review.kind.gvr.group) {
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
        .await
    }
}

impl<A: Admit> Admit for Guard<A> {
    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(async move {
            self.rules.mutate(review).await?;
            self.escalation.check_review(review).await
        })
    }

    fn validate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        self.rules.validate(review)
    }

    fn shows_object(&self, review: &Review<'_>) -> bool {
        self.rules.shows_object(review)
    }
}

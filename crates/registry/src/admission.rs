//! Calls of the admission chain, and what it adds to a write.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use jiff::Timestamp;
use setpoint_api::{GroupResource, Key, Status, Stored};
use setpoint_registry_api::{
    ObjectReader, Operation, OperationOptions, ReinvocationContext, Review, SideWrite,
};
use setpoint_schema::Tree;
use setpoint_strategy::{Kinds, meta};

use crate::metrics::AdmissionStep;
use crate::registry::Registry;
use crate::request_context::RequestContext;

/// How long a write may wait for admission at most, as upstream's handlers.
const MAX_WRITE_TIME: Duration = Duration::from_secs(34);

/// What admission adds to a write.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdmissionEffects {
    pub(crate) side_writes: Vec<SideWrite>,
    pub(crate) warnings: Vec<String>,
}

impl ObjectReader for Registry {
    fn find_object(&self, resource: &GroupResource, key: &Key) -> Option<Arc<Stored>> {
        let resource = self.find_resource(resource)?;
        self.find(&resource, key).ok().flatten()
    }

    fn decode_object(&self, resource: &GroupResource, object: &Stored) -> Option<Tree> {
        let resource = self.find_resource(resource)?;
        resource.kind.decode_stored(object).ok()
    }

    fn served_kinds(&self) -> Arc<Kinds> {
        self.kinds()
    }
}

// === impl RequestContext ===

impl RequestContext<'_> {
    /// Runs mutating admission.
    pub(crate) async fn mutate(
        &self,
        operation: Operation,
        object: Option<&mut Tree>,
        old: Option<&Stored>,
        options: OperationOptions<'_>,
    ) -> Result<AdmissionEffects, Status> {
        let name = self.reviewed_name(object.as_deref(), old);
        let mut review = self.review(operation, &name, old, options);
        review.object = object;
        let start = self.registry.clock.now();
        let outcome = self.registry.admit.mutate(&mut review).await;
        self.observe(AdmissionStep::Mutate, operation, (start, outcome.is_err()));
        outcome?;
        Ok(AdmissionEffects::of(review))
    }

    /// Runs validating admission.
    pub(crate) async fn admit(
        &self,
        operation: Operation,
        object: Option<&mut Tree>,
        old: Option<&Stored>,
        options: OperationOptions<'_>,
    ) -> Result<AdmissionEffects, Status> {
        let name = self.reviewed_name(object.as_deref(), old);
        let mut review = self.review(operation, &name, old, options);
        review.object = object;
        let start = self.registry.clock.now();
        let outcome = self.registry.admit.validate(&mut review).await;
        self.observe(AdmissionStep::Validate, operation, (start, outcome.is_err()));
        outcome?;
        Ok(AdmissionEffects::of(review))
    }

    /// The name in the URL, or else that of the object. They differ for the body of a subresource, which may have none.
    fn reviewed_name(&self, object: Option<&Tree>, old: Option<&Stored>) -> CompactString {
        let own = || object.map(|object| meta::name(object).into());
        let stored = || old.map(|old| old.key().name().into());
        let name = self.target.name.clone().or_else(own).or_else(stored);
        name.unwrap_or_default()
    }

    fn observe(&self, step: AdmissionStep, operation: Operation, (start, rejected): (Timestamp, bool)) {
        let took = self.registry.clock.now().duration_since(start).unsigned_abs();
        let durations = &self.registry.counters.admission;
        durations.observe(step, operation, rejected, took);
    }

    fn review<'b>(
        &'b self,
        operation: Operation,
        name: &'b str,
        old: Option<&'b Stored>,
        options: OperationOptions<'b>,
    ) -> Review<'b> {
        let timeout = options.timeout().unwrap_or(MAX_WRITE_TIME).min(MAX_WRITE_TIME);
        let deadline = self.facts.now.saturating_add(timeout);
        Review {
            operation,
            verb: self.verb,
            user: &self.user,
            kind: self.kind_info(),
            namespace: self.namespace(),
            name,
            subresource: self.target.subresource.as_deref(),
            object: None,
            old,
            old_body: None,
            options,
            dry_run: options.is_dry_run(),
            facts: &self.facts,
            deadline: deadline.unwrap_or(Timestamp::MAX),
            reinvocation: ReinvocationContext::default(),
            side_writes: Vec::new(),
            warnings: Vec::new(),
            audit_annotations: Vec::new(),
            reader: self.registry,
        }
    }
}

// === impl AdmissionEffects ===

impl AdmissionEffects {
    fn of(review: Review<'_>) -> Self {
        let effects = Self {
            side_writes: review.side_writes,
            warnings: Vec::new(),
        };
        effects.with_warnings(review.warnings)
    }

    /// The effects of mutating admission and those of validating admission.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.side_writes.extend(other.side_writes);
        self.with_warnings(other.warnings)
    }

    /// Adds warnings, each once.
    fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        if warnings.is_empty() {
            return self;
        }
        let mut seen: HashSet<String> = self.warnings.iter().cloned().collect();
        self.warnings.extend(
            warnings
                .into_iter()
                .filter(|warning| seen.insert(warning.clone())),
        );
        self
    }
}

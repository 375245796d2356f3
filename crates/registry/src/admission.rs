//! Calls of the admission chain, and what it adds to a write.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use jiff::Timestamp;
use setpoint_api::options::{DeleteOptions, WriteOptions};
use setpoint_api::{ApiVerb, GroupResource, Key, Status, Stored};
use setpoint_registry_api::{
    ConversionFuture, ObjectReader, Operation, OperationOptions, ReinvocationContext, Review, SideWrite,
    StoredRange,
};
use setpoint_schema::Tree;
use setpoint_strategy::{Kind, Kinds, Subresource, SubresourceKind, meta};

use crate::conversion::ConversionError;
use crate::metrics::AdmissionStep;
use crate::owner_references::{self, Phase};
use crate::ranges;
use crate::registry::Registry;
use crate::request_context::RequestContext;
use crate::verbs::require_version;

/// How long a write may wait for admission at most, as upstream's handlers.
const MAX_WRITE_TIME: Duration = Duration::from_secs(34);

/// What admission adds to a write.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdmissionEffects {
    pub(crate) side_writes: Vec<SideWrite>,
    pub(crate) warnings: Vec<String>,
    /// Whether a webhook or a policy has changed the object.
    pub(crate) is_changed: bool,
}

impl ObjectReader for Registry {
    fn find_object(&self, resource: &GroupResource, key: &Key) -> Option<Arc<Stored>> {
        let resource = self.find_resource(resource)?;
        self.find(&resource, key).ok().flatten()
    }

    fn find_range(&self, resource: &GroupResource) -> Result<Option<StoredRange>, Status> {
        ranges::find(self, resource)
    }

    fn decode_object(&self, resource: &GroupResource, object: &Stored) -> Option<Tree> {
        let resource = self.find_resource(resource)?;
        let decoded = match resource.kind.webhook_conversion() {
            None => resource.kind.decode_stored(object),
            Some(conversion) => conversion.decode_unconverted(object),
        };
        decoded.ok()
    }

    fn served_kinds(&self) -> Arc<Kinds> {
        self.kinds()
    }

    fn convert_object<'a>(&'a self, kind: &'a Arc<dyn Kind>, object: &'a Tree) -> ConversionFuture<'a> {
        Box::pin(async move {
            let Some(conversion) = kind.webhook_conversion() else {
                let mut object = object.clone();
                kind.adopt_prepared(&mut object).map_err(Status::internal)?;
                return Ok(object);
            };
            let version = kind.info().gvk.api_version();
            let converted = self.conversions.convert_tree(conversion, object, &version).await;
            converted.map_err(ConversionError::into_write_error)
        })
    }
}

/// A write as admission reviews it.
#[derive(Debug)]
pub(crate) struct ReviewedWrite<'r> {
    operation: Operation,
    object: Option<&'r mut Tree>,
    old: Option<&'r Stored>,
    /// The old state of a subresource with a kind of its own.
    old_body: Option<&'r Tree>,
    options: OperationOptions<'r>,
}

impl<'r> ReviewedWrite<'r> {
    pub(crate) fn create(object: &'r mut Tree, options: &'r WriteOptions) -> Self {
        Self {
            operation: Operation::Create,
            object: Some(object),
            old: None,
            old_body: None,
            options: OperationOptions::Write(options),
        }
    }

    /// An update of an object, or of a body that stands for it; then `old_body` is that of the stored object.
    pub(crate) fn update(
        object: &'r mut Tree,
        old: &'r Stored,
        old_body: Option<&'r Tree>,
        options: &'r WriteOptions,
    ) -> Self {
        Self {
            operation: Operation::Update,
            object: Some(object),
            old: Some(old),
            old_body,
            options: OperationOptions::Write(options),
        }
    }

    pub(crate) fn delete(old: &'r Stored, options: &'r DeleteOptions) -> Self {
        Self {
            operation: Operation::Delete,
            object: None,
            old: Some(old),
            old_body: None,
            options: OperationOptions::Delete(options),
        }
    }

    /// A connect with these options.
    pub(crate) fn connect(object: &'r mut Tree) -> Self {
        Self {
            operation: Operation::Connect,
            object: Some(object),
            old: None,
            old_body: None,
            options: OperationOptions::None,
        }
    }
}

// === impl RequestContext ===

impl RequestContext<'_> {
    /// Runs mutating admission.
    pub(crate) async fn mutate(&self, write: ReviewedWrite<'_>) -> Result<AdmissionEffects, Status> {
        self.run_admission(AdmissionStep::Mutate, write).await
    }

    /// Runs validating admission.
    pub(crate) async fn admit(&self, write: ReviewedWrite<'_>) -> Result<AdmissionEffects, Status> {
        self.run_admission(AdmissionStep::Validate, write).await
    }

    /// Whether a webhook or a policy may see the object of a write.
    pub(crate) fn shows_object(&self, write: ReviewedWrite<'_>) -> bool {
        let name = self.reviewed_name(write.object.as_deref(), write.old);
        self.registry.admit.shows_object(&self.review(&name, write))
    }

    async fn run_admission(
        &self,
        step: AdmissionStep,
        write: ReviewedWrite<'_>,
    ) -> Result<AdmissionEffects, Status> {
        let operation = write.operation;
        if self.carries_out_action(operation) {
            return Ok(AdmissionEffects::default());
        }
        let name = self.reviewed_name(write.object.as_deref(), write.old);
        let mut review = self.review(&name, write);
        let start = self.registry.clock.now();
        let outcome = match step {
            AdmissionStep::Mutate => self.registry.admit.mutate(&mut review).await,
            AdmissionStep::Validate => self.registry.admit.validate(&mut review).await,
        };
        self.observe(step, operation, (start, outcome.is_err()));
        self.add_audit_annotations(std::mem::take(&mut review.audit_annotations));
        let outcome = outcome.and_then(|()| self.check_changed(&mut review));
        if outcome.is_err() {
            review
                .warnings
                .drain(..)
                .for_each(|warning| self.add_warning(warning));
        }
        outcome?;
        Ok(AdmissionEffects::of(review))
    }

    /// An action subresource is reviewed as a create of its body. The update and the deletion that carry it out are not
    /// reviewed again.
    fn carries_out_action(&self, operation: Operation) -> bool {
        let subresource = self.target.subresource.as_deref();
        let subresource = subresource.and_then(|name| self.kind_info().find_subresource(name));
        let is_action = |one: Subresource| matches!(one.kind, SubresourceKind::Action(_));
        operation != Operation::Create && subresource.is_some_and(is_action)
    }

    /// Checks again what the verb has checked before admission, if a webhook or a policy has changed the object.
    fn check_changed(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let is_own_kind = review.object_kind() == review.kind.gvk;
        let (true, true, Some(object)) = (
            review.reinvocation.is_requested(),
            is_own_kind,
            review.object.as_deref_mut(),
        ) else {
            return Ok(());
        };
        review
            .warnings
            .extend(owner_references::dedup(object, Phase::Mutated));
        self.default_namespace(object)?;
        match review.old {
            Some(old) => require_version(self, object, old),
            None => Ok(()),
        }
    }

    /// The name in the URL, or else that of the object. They differ for the body of a subresource, which may have none.
    /// A deletion of a collection has no name, as upstream.
    fn reviewed_name(&self, object: Option<&Tree>, old: Option<&Stored>) -> CompactString {
        if self.verb == ApiVerb::DeleteCollection {
            return CompactString::default();
        }
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

    fn review<'b>(&'b self, name: &'b str, write: ReviewedWrite<'b>) -> Review<'b> {
        let options = write.options;
        let timeout = options.timeout().unwrap_or(MAX_WRITE_TIME).min(MAX_WRITE_TIME);
        let deadline = self.facts.now.saturating_add(timeout);
        Review {
            operation: write.operation,
            verb: self.verb,
            user: &self.user,
            kind: self.kind_info(),
            namespace: self.namespace(),
            name,
            subresource: self.target.subresource.as_deref(),
            object: write.object,
            old: write.old,
            old_body: write.old_body,
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
            is_changed: review.reinvocation.is_requested(),
        };
        effects.with_warnings(review.warnings)
    }

    /// Drops the fields of an object that mutating admission has added and its kind does not have.
    pub(crate) fn drop_unknown_fields(&self, kind: &dyn Kind, object: &mut Tree) {
        if self.is_changed {
            kind.drop_unknown_fields(object);
        }
    }

    /// The effects of mutating admission and those of validating admission.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.side_writes.extend(other.side_writes);
        self.is_changed |= other.is_changed;
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

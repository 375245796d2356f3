//! [`RequestContext`]: the user, the target, the kind and the warnings of one request.
//!
//! The steps that several verbs share are its methods, each group in a file: `decode.rs` from the body to an object,
//! `admit.rs` for admission, `commit.rs` from the object to the store.

use std::sync::Arc;

use parking_lot::Mutex;

use setpoint_api::field::Errors;
use setpoint_api::status::StatusCause;
use setpoint_api::{ApiVerb, AuditAnnotation, GroupResource, Key, Status, Stored, Target, User};
use setpoint_strategy::{Kind, KindInfo, RequestFacts};

use crate::backend::Backend;
use crate::conversion::ManagerVersions;
use crate::key;
use crate::registry::Registry;
use crate::served_resources::{Resource, ServedVersion};

/// The context of a request for one resource.
#[derive(Debug)]
pub(crate) struct RequestContext<'a> {
    pub(crate) registry: &'a Registry,
    /// The kind in the version of the request.
    pub(crate) kind: Arc<dyn Kind>,
    /// The resource that holds its objects.
    pub(crate) resource: Arc<Resource>,
    /// The resource as the request names it.
    pub(crate) name: GroupResource,
    pub(crate) user: Arc<User>,
    pub(crate) verb: ApiVerb,
    pub(crate) target: Target,
    pub(crate) facts: RequestFacts,
    /// Whether the request has a slot of the large requests, and runs off the worker threads.
    pub(crate) is_large: bool,
    /// The object in the versions of its field managers, where only a webhook can convert it.
    pub(crate) manager_versions: Mutex<ManagerVersions>,
    warnings: Mutex<Warnings>,
}

/// The warnings of a request, in the order of the response's `Warning` headers, and its audit annotations.
#[derive(Debug, Default)]
struct Warnings {
    /// About the body: unknown or duplicate fields, duplicate owners. An error is returned with these.
    body: Vec<String>,
    /// About the object that was written: of its kind, then of admission.
    object: Vec<String>,
    /// For the audit event.
    audit_annotations: Vec<AuditAnnotation>,
}

impl<'a> RequestContext<'a> {
    pub(crate) fn new(
        registry: &'a Registry,
        served: ServedVersion,
        user: Arc<User>,
        verb: ApiVerb,
        target: Target,
    ) -> Self {
        let facts = RequestFacts {
            now: registry.clock.now(),
            user: user.clone(),
            event_ttl: registry.event_ttl,
            allow_privileged: registry.allow_privileged,
        };
        Self {
            registry,
            name: served.kind.info().gvr.group_resource(),
            kind: served.kind,
            resource: served.resource,
            user,
            verb,
            target,
            facts,
            is_large: false,
            manager_versions: Mutex::default(),
            warnings: Mutex::default(),
        }
    }

    pub(crate) fn kind_info(&self) -> &KindInfo {
        self.kind.info()
    }

    /// The backend of the resource.
    pub(crate) fn backend(&self) -> &Backend {
        &self.resource.backend
    }

    pub(crate) fn namespace(&self) -> &str {
        self.target.namespace.as_deref().unwrap_or_default()
    }

    /// The key of the object in the URL.
    pub(crate) fn key(&self) -> Result<Key, Status> {
        let name = self.target.name.as_deref();
        let name = name.ok_or_else(|| Status::bad_request("name must be provided"))?;
        if self.kind_info().is_namespaced() && self.namespace().is_empty() {
            return Err(Status::bad_request(
                "an empty namespace may not be set when a resource name is provided",
            ));
        }
        Ok(Key::new(self.namespace(), name))
    }

    pub(crate) fn find(&self, key: &Key) -> Result<Option<Arc<Stored>>, Status> {
        self.registry.find(&self.resource, key)
    }

    /// The stored object, or the status that it is not found.
    pub(crate) fn require(&self, key: &Key) -> Result<Arc<Stored>, Status> {
        self.find(key)?.ok_or_else(|| self.not_found(key))
    }

    pub(crate) fn not_found(&self, key: &Key) -> Status {
        match self.kind_info().rules.upstream.not_found_resource {
            "" => Status::not_found(&self.name, key.name()),
            word => Status::not_found(&GroupResource::new(&self.name.group, word), key.name()),
        }
    }

    /// The conflict for a failed precondition, with the storage key that Kubernetes would use.
    pub(crate) fn invalid_object(&self, key: &Key, why: &str) -> Status {
        let path = key::upstream_prefix(self.kind_info());
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {path}{key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
        );
        Status::conflict(&self.name, key.name(), &why)
    }

    /// Runs validation of the kind and turns its errors into one status. The first run records no field paths, as they
    /// are needed only if there are errors or warnings; then validation runs again.
    pub(crate) fn validate(&self, name: &str, rules: impl Fn(&Errors)) -> Result<(), Status> {
        let errors = Errors::without_paths();
        rules(&errors);
        if errors.is_empty() && errors.take_warnings().is_empty() {
            return Ok(());
        }
        let errors = Errors::default();
        rules(&errors);
        errors
            .take_warnings()
            .into_iter()
            .for_each(|warning| self.add_warning(warning));
        match errors.is_empty() {
            true => Ok(()),
            false => {
                let errors = errors.into_vec();
                let mut status = Status::invalid(self.kind.stored_kind(), name, &errors);
                if self.kind_info().rules.upstream.repeats_causes {
                    let causes = errors.iter().map(StatusCause::from).collect();
                    status.details.get_or_insert_default().causes = causes;
                }
                Err(status)
            }
        }
    }

    /// Adds a warning about the body.
    pub(crate) fn add_warning(&self, warning: String) {
        self.warnings.lock().body.push(warning);
    }

    /// Replaces the warnings about the body: it was decoded, or patched once more after a conflict.
    pub(crate) fn set_warnings(&self, warnings: Vec<String>) {
        self.warnings.lock().body = warnings;
    }

    /// Adds the warnings about a written object: of its kind, and of admission.
    pub(crate) fn add_object_warnings(&self, kind: Vec<String>, admission: Vec<String>) {
        let object = &mut self.warnings.lock().object;
        object.extend(kind);
        object.extend(admission);
    }

    /// The warnings of the response to a request that succeeded.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        let warnings = &mut *self.warnings.lock();
        let mut body = std::mem::take(&mut warnings.body);
        body.append(&mut warnings.object);
        body
    }

    /// Adds annotations of the audit event.
    pub(crate) fn add_audit_annotations(&self, annotations: Vec<AuditAnnotation>) {
        if !annotations.is_empty() {
            self.warnings.lock().audit_annotations.extend(annotations);
        }
    }

    /// The annotations of the audit event.
    pub(crate) fn take_audit_annotations(&self) -> Vec<AuditAnnotation> {
        std::mem::take(&mut self.warnings.lock().audit_annotations)
    }

    /// The warnings of the response to a request that failed.
    pub(crate) fn take_body_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().body)
    }
}

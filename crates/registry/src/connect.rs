//! Admission of connects, whose streams the HTTP server opens.

use setpoint_api::Status;
use setpoint_registry_api::{AdmitConnect, AdmittedConnect, ConnectFuture, ConnectRequest};

use crate::admission::ReviewedWrite;
use crate::registry::Registry;
use crate::request_context::RequestContext;

impl AdmitConnect for Registry {
    fn admit_connect(&self, request: ConnectRequest) -> ConnectFuture<'_> {
        Box::pin(admit(self, request))
    }
}

async fn admit(registry: &Registry, request: ConnectRequest) -> Result<AdmittedConnect, Status> {
    let ConnectRequest {
        user,
        target,
        verb,
        mut options,
    } = request;
    let served = registry.find_version(&target.resource);
    let served = served.ok_or_else(Status::no_such_resource)?;
    let context = RequestContext::new(registry, served, user, verb, target);
    let failed = |status: Status| Status {
        warnings: context.take_body_warnings(),
        audit_annotations: context.take_audit_annotations(),
        ..status
    };
    let mutated = context.mutate(ReviewedWrite::connect(&mut options)).await;
    let mutated = mutated.map_err(failed)?;
    let admitted = context.admit(ReviewedWrite::connect(&mut options)).await;
    let effects = mutated.and(admitted.map_err(failed)?);
    Ok(AdmittedConnect {
        options,
        warnings: effects.warnings,
        audit_annotations: context.take_audit_annotations(),
    })
}

//! Admission of connects (exec, attach, portforward and proxy), whose streams the HTTP server opens itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use setpoint_api::{ApiVerb, AuditAnnotation, Status, Target, User};
use setpoint_schema::Tree;

/// Runs admission of connects.
pub trait AdmitConnect: Send + Sync {
    /// Reviews a connect, before its stream is opened.
    fn admit_connect(&self, request: ConnectRequest) -> ConnectFuture<'_>;
}

/// The pending decision about a connect.
pub type ConnectFuture<'a> = Pin<Box<dyn Future<Output = Result<AdmittedConnect, Status>> + Send + 'a>>;

/// A connect under review.
#[derive(Debug)]
pub struct ConnectRequest {
    pub user: Arc<User>,
    /// The object and its connect subresource.
    pub target: Target,
    pub verb: ApiVerb,
    /// Its options, such as PodExecOptions.
    pub options: Tree,
}

/// A connect that admission allows.
#[derive(Debug)]
pub struct AdmittedConnect {
    /// Its options, as admission may have changed them.
    pub options: Tree,
    pub warnings: Vec<String>,
    pub audit_annotations: Vec<AuditAnnotation>,
}

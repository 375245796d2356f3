//! [`AuditAnnotation`]: what a step of a request adds to its audit event.

/// An annotation of the audit event of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditAnnotation {
    pub key: String,
    pub value: String,
    /// Whether it has content of the request, and is logged only at the levels that log the body.
    pub is_request_content: bool,
}

impl AuditAnnotation {
    /// An annotation that is logged at every level.
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
            is_request_content: false,
        }
    }
}

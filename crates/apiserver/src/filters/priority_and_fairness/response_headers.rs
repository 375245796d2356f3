//! The `X-Kubernetes-PF-*` response headers: the UIDs of the request's FlowSchema and PriorityLevelConfiguration.

use http::{HeaderName, Response};

use super::configuration::FlowSchema;
use crate::body::Body;

static FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
static PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// Sets the headers of a response, if the objects are stored.
pub(crate) fn set(flow_schema: &FlowSchema, response: &mut Response<Body>) {
    if let Some((schema, level)) = &flow_schema.uids {
        let headers = response.headers_mut();
        headers.insert(&FLOW_SCHEMA, schema.clone());
        headers.insert(&PRIORITY_LEVEL, level.clone());
    }
}

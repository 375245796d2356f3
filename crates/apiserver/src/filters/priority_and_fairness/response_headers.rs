//! The `X-Kubernetes-PF-*` response headers: the UIDs of the request's FlowSchema and PriorityLevelConfiguration.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use http::{HeaderName, HeaderValue, Response};
use setpoint_api::options::GetOptions;
use setpoint_api::{Gvr, Key, Request, Serve, Target, User, Verb};

use super::flow_schemas::FLOW_SCHEMAS;
use crate::body::Body;
use crate::serve::ServerState;

static FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
static PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const VERSION: &str = "v1";
/// Minimum time between two reads of objects that do not exist yet.
const RETRY_MILLISECONDS: i64 = 1000;

/// The UIDs of the objects, by flow schema, read when first needed.
#[derive(Debug, Default)]
pub(crate) struct ResponseHeaders {
    uids: [OnceLock<HeaderUids>; FLOW_SCHEMAS.len()],
    /// Absent objects are not read again before this time.
    retry_at: AtomicI64,
}

#[derive(Debug)]
struct HeaderUids {
    flow_schema: HeaderValue,
    priority_level: HeaderValue,
}

impl ResponseHeaders {
    /// Sets the headers of a response, if the objects exist.
    pub(crate) async fn set(&self, shared: &ServerState, schema: usize, response: &mut Response<Body>) {
        if self.uids[schema].get().is_none() {
            self.read_uids(shared, schema).await;
        }
        if let Some(uids) = self.uids[schema].get() {
            let headers = response.headers_mut();
            headers.insert(&FLOW_SCHEMA, uids.flow_schema.clone());
            headers.insert(&PRIORITY_LEVEL, uids.priority_level.clone());
        }
    }

    async fn read_uids(&self, shared: &ServerState, schema: usize) {
        let resource = |name| Gvr::new(GROUP, VERSION, name);
        if (shared.kinds)().find(&resource("flowschemas")).is_none() {
            return;
        }
        let now = shared.clock.now().as_millisecond();
        if now < self.retry_at.load(Ordering::Relaxed) {
            return;
        }
        let found = FLOW_SCHEMAS
            .get(schema)
            .map(|flow| (flow.name, flow.level_name()));
        let Some((flow, level)) = found else { return };
        let schema_uid = uid(&*shared.serve, resource("flowschemas"), flow).await;
        let level_uid = uid(&*shared.serve, resource("prioritylevelconfigurations"), level).await;
        match (schema_uid, level_uid) {
            (Some(flow), Some(level)) => {
                self.uids[schema].get_or_init(|| HeaderUids {
                    flow_schema: flow,
                    priority_level: level,
                });
            }
            _ => self.retry_at.store(now + RETRY_MILLISECONDS, Ordering::Relaxed),
        }
    }
}

async fn uid(serve: &dyn Serve, resource: Gvr, name: &str) -> Option<HeaderValue> {
    let request = Request {
        user: User::component("system:apiserver").into(),
        target: Target::object(resource, &Key::new("", name)),
        verb: Verb::Get(GetOptions::default()),
    };
    let object = serve.call(request).await.ok()?.into_object()?;
    HeaderValue::try_from(object.header().uid.as_str()).ok()
}

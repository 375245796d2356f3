//! The headers by which a caller learns which flow schema and which level of priority its request belonged to.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use http::{HeaderName, HeaderValue, Response};
use setpoint_api::options::GetOptions;
use setpoint_api::{Gvr, Key, Request, Serve, Target, User, Verb};

use super::flows::FLOWS;
use crate::body::Body;
use crate::serve::Shared;

static FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
static PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const VERSION: &str = "v1";
/// How long to wait before asking again for objects that are not there.
const PAUSE_MILLISECONDS: i64 = 1000;

/// The uids of the objects, by flow schema, read when they are first needed.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    known: [OnceLock<Mark>; FLOWS.len()],
    /// Not before this time are absent objects asked for again.
    next: AtomicI64,
}

#[derive(Debug)]
struct Mark {
    schema: HeaderValue,
    level: HeaderValue,
}

impl Marks {
    /// Puts the headers on an answer, once there are such objects.
    pub(crate) async fn mark(&self, shared: &Shared, schema: usize, response: &mut Response<Body>) {
        if self.known[schema].get().is_none() {
            self.learn(shared, schema).await;
        }
        if let Some(mark) = self.known[schema].get() {
            let headers = response.headers_mut();
            headers.insert(&FLOW_SCHEMA, mark.schema.clone());
            headers.insert(&PRIORITY_LEVEL, mark.level.clone());
        }
    }

    async fn learn(&self, shared: &Shared, schema: usize) {
        let resource = |name| Gvr::new(GROUP, VERSION, name);
        if (shared.kinds)().find(&resource("flowschemas")).is_none() {
            return;
        }
        let now = shared.clock.now().as_millisecond();
        if now < self.next.load(Ordering::Relaxed) {
            return;
        }
        let found = FLOWS.get(schema).map(|flow| (flow.name, flow.level_name()));
        let Some((flow, level)) = found else { return };
        let schema_uid = uid(&*shared.serve, resource("flowschemas"), flow).await;
        let level_uid = uid(&*shared.serve, resource("prioritylevelconfigurations"), level).await;
        match (schema_uid, level_uid) {
            (Some(flow), Some(level)) => {
                self.known[schema].get_or_init(|| Mark { schema: flow, level });
            }
            _ => self.next.store(now + PAUSE_MILLISECONDS, Ordering::Relaxed),
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

//! [`Interceptor`]: records the requests of components, rejects them, or crashes their sender.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::{ApiVerb, GroupResource, Request, Response, Serve, ServeFuture, Status};
use setpoint_runtime::RbacRules;

use crate::crash::{Crash, CrashTrigger, Delivery};

/// A [`Serve`] around the server that records every request, and may reject it or simulate a crash of its sender.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use setpoint_api::Status;
/// # use setpoint_testkit::{Cluster, config_map};
///
/// let cluster = Cluster::start().await;
/// cluster.interceptor.reject(|call| (call.verb == "create").then(|| Status::unavailable("out of service")));
/// let maps = cluster.client("me").namespaced::<k8s_openapi::api::core::v1::ConfigMap>("default");
/// assert!(maps.create(&config_map("a", "k", "v")).await.is_err());
/// cluster.interceptor.allow_all();
/// maps.create(&config_map("a", "k", "v")).await.unwrap();
/// assert_eq!(cluster.interceptor.writes().len(), 2);
/// # }
/// ```
pub struct Interceptor {
    serve: Arc<dyn Serve>,
    calls: Mutex<Vec<RecordedRequest>>,
    reject: Mutex<Option<RejectFn>>,
    trigger: Mutex<Option<CrashTrigger>>,
}

type RejectFn = Box<dyn Fn(&RecordedRequest) -> Option<Status> + Send>;

/// A request that passed the interceptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRequest {
    /// The name of the user: for components, the component name.
    pub user: String,
    /// The verb, without its options.
    pub verb: ApiVerb,
    /// Empty for the core group.
    pub group: String,
    /// The resource, with the subresource if there is one: `pods/binding`.
    pub resource: String,
    /// Empty for the whole cluster.
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
}

impl Interceptor {
    /// An interceptor of this server that passes every request.
    pub fn new(serve: Arc<dyn Serve>) -> Arc<Self> {
        Arc::new(Self {
            serve,
            calls: Mutex::default(),
            reject: Mutex::default(),
            trigger: Mutex::default(),
        })
    }

    /// From now on, requests for which this returns a status are rejected with it and do not reach the server.
    pub fn reject(&self, reject: impl Fn(&RecordedRequest) -> Option<Status> + Send + 'static) {
        *self.reject.lock() = Some(Box::new(reject));
    }

    /// From now on, everything passes.
    pub fn allow_all(&self) {
        *self.reject.lock() = None;
    }

    /// Simulates a crash of a process at one of its requests from now on. The test still has to kill it: until then it
    /// waits for a response that never comes.
    pub fn crash(&self, crash: Crash) {
        *self.trigger.lock() = Some(CrashTrigger::new(crash));
    }

    /// Whether the process has crashed.
    pub fn has_crashed(&self) -> bool {
        self.trigger.lock().as_ref().is_some_and(CrashTrigger::is_dead)
    }

    /// Cancels the crash.
    pub fn clear_crash(&self) {
        *self.trigger.lock() = None;
    }

    /// Forgets the requests recorded so far.
    pub fn clear(&self) {
        self.calls.lock().clear();
    }

    /// The writes since the last clear as lines `user verb resource`, including rejected ones, without those dropped by a
    /// crash. Events and leases are left out: they depend on time and are not part of the cluster's state.
    pub fn writes(&self) -> Vec<String> {
        let calls = self.calls.lock();
        let writes = calls
            .iter()
            .filter(|call| call.is_write() && !call.is_event_or_lease());
        writes
            .map(|call| format!("{} {} {}", call.user, call.verb, call.resource))
            .collect()
    }

    /// The requests of a user since the last clear that these RBAC rules do not allow, as lines `verb resource`: what is
    /// missing from a controller's role.
    pub fn undeclared(&self, user: &str, rights: &RbacRules) -> Vec<String> {
        let calls = self.calls.lock();
        let own = calls.iter().filter(|call| call.user == user);
        let others = own.filter(|call| !rights.allows(&call.group_resource(), call.verb.as_str()));
        let mut lines: Vec<_> = others
            .map(|call| format!("{} {}", call.verb, call.group_resource()))
            .collect();
        lines.sort();
        lines.dedup();
        lines
    }

    /// The reads since the last clear, as lines `user verb resource`.
    pub fn reads(&self) -> Vec<String> {
        let calls = self.calls.lock();
        let reads = calls.iter().filter(|call| !call.is_write());
        reads
            .map(|call| format!("{} {} {}", call.user, call.verb, call.resource))
            .collect()
    }

    /// How many writes since the last clear equal this line.
    pub fn count(&self, line: &str) -> usize {
        self.writes().iter().filter(|own| *own == line).count()
    }
}

impl Serve for Interceptor {
    fn call(&self, request: Request) -> ServeFuture<'_> {
        let call = RecordedRequest::of(&request);
        let delivery = self
            .trigger
            .lock()
            .as_mut()
            .map_or(Delivery::Deliver, |trigger| trigger.on_request(&call));
        if delivery == Delivery::DropRequest {
            return Box::pin(std::future::pending());
        }
        let rejection = self.reject.lock().as_ref().and_then(|reject| reject(&call));
        self.calls.lock().push(call);
        match rejection {
            Some(status) => Box::pin(std::future::ready(Err(status))),
            None if delivery == Delivery::DropResponse => Box::pin(self.call_and_hang(request)),
            None => self.serve.call(request),
        }
    }
}

impl Interceptor {
    /// Executes the last request of a crashed process and drops the response.
    async fn call_and_hang(&self, request: Request) -> Result<Response, Status> {
        // The process never sees whether it succeeds.
        let _ = self.serve.call(request).await;
        if let Some(trigger) = self.trigger.lock().as_mut() {
            trigger.set_dead();
        }
        std::future::pending().await
    }
}

impl fmt::Debug for Interceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interceptor")
            .field("calls", &self.calls.lock().len())
            .finish_non_exhaustive()
    }
}

// === impl RecordedRequest ===

impl RecordedRequest {
    fn of(request: &Request) -> Self {
        let target = &request.target;
        let resource = match &target.subresource {
            None => target.resource.resource.to_string(),
            Some(sub) => format!("{}/{sub}", target.resource.resource),
        };
        Self {
            user: request.user.name.clone(),
            verb: request.verb.api_verb(),
            group: target.resource.group.to_string(),
            resource,
            namespace: target.namespace.as_deref().unwrap_or_default().to_owned(),
            name: target.name.as_deref().unwrap_or_default().to_owned(),
        }
    }

    /// Whether it is a write.
    pub fn is_write(&self) -> bool {
        !self.verb.is_read()
    }

    fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.resource)
    }

    pub(crate) fn is_event_or_lease(&self) -> bool {
        matches!(self.resource.as_str(), "events" | "leases")
    }
}

//! The way from a part to the server, where a test may listen and interfere.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::{GroupResource, Reply, Request, Response, Serve, Status};
use setpoint_runtime::Rights;

use crate::crash::{Crash, Fate, Fuse};

/// A server behind a link that notes every request, may refuse it, and may be where a process dies.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use setpoint_api::Status;
/// # use setpoint_testkit::{Cluster, config_map};
///
/// let cluster = Cluster::start().await;
/// cluster.link.refuse(|call| (call.verb == "create").then(|| Status::unavailable("out of order")));
/// let maps = cluster.client("me").namespaced::<k8s_openapi::api::core::v1::ConfigMap>("default");
/// assert!(maps.create(&config_map("a", "k", "v")).await.is_err());
/// cluster.link.allow_all();
/// maps.create(&config_map("a", "k", "v")).await.unwrap();
/// assert_eq!(cluster.link.writes().len(), 2);
/// # }
/// ```
pub struct Link {
    serve: Arc<dyn Serve>,
    calls: Mutex<Vec<Call>>,
    refuse: Mutex<Option<Refusal>>,
    fuse: Mutex<Option<Fuse>>,
}

type Refusal = Box<dyn Fn(&Call) -> Option<Status> + Send>;

/// One request that went over the link, in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The name of the user: for parts, the name of the component.
    pub user: String,
    /// What is asked for: `create`, `list`.
    pub verb: &'static str,
    /// Empty for the core group.
    pub group: String,
    /// The resource, with the subresource if there is one: `pods/binding`.
    pub resource: String,
    /// Empty for the whole cluster.
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
}

impl Link {
    /// A link to this server, over which everything passes.
    pub fn new(serve: Arc<dyn Serve>) -> Arc<Self> {
        Arc::new(Self {
            serve,
            calls: Mutex::default(),
            refuse: Mutex::default(),
            fuse: Mutex::default(),
        })
    }

    /// From now on, requests for which this gives a status are refused with it and do not reach the server.
    pub fn refuse(&self, refuse: impl Fn(&Call) -> Option<Status> + Send + 'static) {
        *self.refuse.lock() = Some(Box::new(refuse));
    }

    /// From now on, everything passes.
    pub fn allow_all(&self) {
        *self.refuse.lock() = None;
    }

    /// Lets a process die at one of its requests from now on. It is still to be killed: until then it waits for an
    /// answer that never comes.
    pub fn crash(&self, crash: Crash) {
        *self.fuse.lock() = Some(Fuse::new(crash));
    }

    /// Whether the process has come to its end.
    pub fn has_crashed(&self) -> bool {
        self.fuse.lock().as_ref().is_some_and(Fuse::is_dead)
    }

    /// Nobody dies any more.
    pub fn mend(&self) {
        *self.fuse.lock() = None;
    }

    /// Forgets the calls so far.
    pub fn clear(&self) {
        self.calls.lock().clear();
    }

    /// The writes since the last clear, refused ones too but not those that never left, as lines `user verb resource`, except of events and leases:
    /// these tell of time and are not about the state of the cluster.
    pub fn writes(&self) -> Vec<String> {
        let calls = self.calls.lock();
        let writes = calls.iter().filter(|call| call.is_write() && !call.is_chatter());
        writes
            .map(|call| format!("{} {} {}", call.user, call.verb, call.resource))
            .collect()
    }

    /// What a user has done since the last clear that these rights do not allow, as lines `verb resource`: what is missing
    /// from a controller's role.
    pub fn undeclared(&self, user: &str, rights: &Rights) -> Vec<String> {
        let calls = self.calls.lock();
        let own = calls.iter().filter(|call| call.user == user);
        let others = own.filter(|call| !rights.allow(&call.group_resource(), call.verb));
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

    /// How many writes since the last clear are this line.
    pub fn count(&self, line: &str) -> usize {
        self.writes().iter().filter(|own| *own == line).count()
    }
}

impl Serve for Link {
    fn call(&self, request: Request) -> Reply<'_> {
        let call = Call::of(&request);
        let fate = self
            .fuse
            .lock()
            .as_mut()
            .map_or(Fate::Passes, |fuse| fuse.burn(&call));
        if fate == Fate::Lost {
            return Box::pin(std::future::pending());
        }
        let refused = self.refuse.lock().as_ref().and_then(|refuse| refuse(&call));
        self.calls.lock().push(call);
        match refused {
            Some(status) => Box::pin(std::future::ready(Err(status))),
            None if fate == Fate::Unheard => Box::pin(self.last_call(request)),
            None => self.serve.call(request),
        }
    }
}

impl Link {
    /// Carries out the last request of a process, whose answer nobody waits for.
    async fn last_call(&self, request: Request) -> Result<Response, Status> {
        // Whether it succeeds is nobody's business any more.
        let _ = self.serve.call(request).await;
        if let Some(fuse) = self.fuse.lock().as_mut() {
            fuse.die();
        }
        std::future::pending().await
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("calls", &self.calls.lock().len())
            .finish_non_exhaustive()
    }
}

// === impl Call ===

impl Call {
    fn of(request: &Request) -> Self {
        let target = &request.target;
        let resource = match &target.subresource {
            None => target.resource.resource.to_string(),
            Some(sub) => format!("{}/{sub}", target.resource.resource),
        };
        Self {
            user: request.user.name.clone(),
            verb: request.verb.name(),
            group: target.resource.group.to_string(),
            resource,
            namespace: target.namespace.as_deref().unwrap_or_default().to_owned(),
            name: target.name.as_deref().unwrap_or_default().to_owned(),
        }
    }

    /// Whether it changes anything.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch")
    }

    fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.resource)
    }

    pub(crate) fn is_chatter(&self) -> bool {
        matches!(self.resource.as_str(), "events" | "leases")
    }
}

//! [`Client`]: a server and who is asking it.

use std::fmt;
use std::sync::Arc;

use setpoint_api::{Gvr, Request, Response, Serve, Status, Target, User, Verb};

use crate::dynamic::Dynamic;
use crate::handle::Handle;
use crate::http::{self, Http};
use crate::kubeconfig::Connection;
use crate::typed::Object;

/// A server as one user sees it. Cloning shares the connection.
#[derive(Clone)]
pub struct Client {
    serve: Arc<dyn Serve>,
    user: Arc<User>,
}

impl Client {
    /// `user` is who asks, where the server is in this process; a remote server goes by the credentials it is shown.
    pub fn new(serve: Arc<dyn Serve>, user: Arc<User>) -> Self {
        Self { serve, user }
    }

    /// The server at the other end of a connection, which goes by the credentials it is shown.
    pub fn connect(connection: &Connection) -> Result<Self, http::Error> {
        let http = Http::new(connection)?;
        Ok(Self::new(Arc::new(http), Arc::default()))
    }

    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    pub fn serve(&self) -> &Arc<dyn Serve> {
        &self.serve
    }

    /// The same server as another user.
    #[must_use]
    pub fn as_user(&self, user: User) -> Self {
        Self::new(self.serve.clone(), Arc::new(user))
    }

    /// The objects of a type in the whole cluster.
    pub fn all<T: Object>(&self) -> Handle<T> {
        self.namespaced("")
    }

    /// The objects of a type in one namespace; the empty namespace is the whole cluster, as in a key.
    pub fn namespaced<T: Object>(&self, namespace: &str) -> Handle<T> {
        Handle::new(self.dynamic(T::resource(), namespace))
    }

    /// The objects of a resource whose type is not known here.
    pub fn dynamic(&self, resource: Gvr, namespace: &str) -> Dynamic {
        Dynamic::new(self.clone(), resource, namespace)
    }

    /// Asks the server.
    pub async fn call(&self, target: Target, verb: Verb) -> Result<Response, Status> {
        let user = self.user.clone();
        let request = Request { user, target, verb };
        self.serve.call(request).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("user", &self.user.name)
            .finish_non_exhaustive()
    }
}

//! [`Client`]: a server and who is asking it.

use std::fmt;
use std::sync::Arc;

use setpoint_api::options::{FieldValidation, WriteOptions};
use setpoint_api::{Gvr, Request, Response, Serve, Status, Target, User, Verb};

use crate::dynamic::Dynamic;
use crate::handle::Handle;
use crate::http::{self, Http};
use crate::kubeconfig::Connection;
use crate::typed::Object;

/// A server as one user sees it. Cloning shares the connection.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), setpoint_api::Status> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let client = cluster.client("me");
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use setpoint_api::options::ListOptions;
///
/// // In a program: let client = Client::connect(&Connection::infer()?)?;
/// let maps = client.namespaced::<ConfigMap>("default");
/// let mut map = ConfigMap::default();
/// map.metadata.name = Some("greeting".to_owned());
/// map.data = Some([("text".to_owned(), "hello".to_owned())].into());
/// let created = maps.create(&map).await?;
///
/// // What comes back is decoded only if one looks inside.
/// let mut map = created.to_owned()?;
/// map.data = Some([("text".to_owned(), "good morning".to_owned())].into());
/// let updated = maps.update(&map).await?;
/// assert!(updated.resource_version() > created.resource_version());
/// assert!(maps.update(&map).await.unwrap_err().is_conflict());
///
/// let everywhere = client.all::<ConfigMap>().list(&ListOptions::default()).await?;
/// assert!(everywhere.items.iter().any(|map| map.key().as_str() == "default/greeting"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    serve: Arc<dyn Serve>,
    user: Arc<User>,
    writes: WriteOptions,
    /// Who is told what the server says besides its answers. Where it is nobody, it is logged.
    warned: Option<Arc<Hear>>,
    figures: Option<Arc<Figures>>,
}

/// Figures in Prometheus' text form.
type Figures = dyn Fn() -> String + Send + Sync;

/// Hears a warning.
type Hear = dyn Fn(&str) + Send + Sync;

impl Client {
    /// `user` is who asks, where the server is in this process; a remote server goes by the credentials it is shown.
    pub fn new(serve: Arc<dyn Serve>, user: Arc<User>) -> Self {
        Self {
            serve,
            user,
            writes: WriteOptions::default(),
            warned: None,
            figures: None,
        }
    }

    /// The server at the other end of a connection, which goes by the credentials it is shown.
    pub fn connect(connection: &Connection) -> Result<Self, http::Error> {
        Http::new(connection).map(Self::remote)
    }

    /// A remote server, asked in ways of one's own: in protobuf, no faster than so, or for metadata alone.
    pub fn remote(http: Http) -> Self {
        let figures = http.clone();
        let figures: Option<Arc<Figures>> = Some(Arc::new(move || figures.metrics_text()));
        Self {
            figures,
            ..Self::new(Arc::new(http), Arc::default())
        }
    }

    /// The figures of its requests as text, where they go to a remote server; else nothing.
    pub fn metrics_text(&self) -> String {
        self.figures.as_ref().map(|figures| figures()).unwrap_or_default()
    }

    /// Who asks.
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// What is asked.
    pub fn serve(&self) -> &Arc<dyn Serve> {
        &self.serve
    }

    /// The same server as another user.
    #[must_use]
    pub fn as_user(&self, user: User) -> Self {
        let user = Arc::new(user);
        Self { user, ..self.clone() }
    }

    /// The same user and ways, asking another server, or the same one through something that looks on.
    #[must_use]
    pub fn over(&self, serve: Arc<dyn Serve>) -> Self {
        Self {
            serve,
            ..self.clone()
        }
    }

    /// The same client, whose writes only say what would come of them.
    #[must_use]
    pub fn dry_run(&self) -> Self {
        let mut client = self.clone();
        client.writes.dry_run = true;
        client
    }

    /// The same client, noted under this name as the one who manages what it writes.
    #[must_use]
    pub fn managing_as(&self, manager: &str) -> Self {
        let mut client = self.clone();
        client.writes.field_manager = Some(manager.to_owned());
        client
    }

    /// The same client, whose writes are refused if there is a field in them that the server does not know.
    #[must_use]
    pub fn strict(&self) -> Self {
        let mut client = self.clone();
        client.writes.field_validation = FieldValidation::Strict;
        client
    }

    /// The same client, which hands on what the server says besides its answers: fields it does not know, versions that
    /// will go. Where nobody hears it, it is logged.
    #[must_use]
    pub fn on_warning(&self, hear: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let warned: Option<Arc<Hear>> = Some(Arc::new(hear));
        Self {
            warned,
            ..self.clone()
        }
    }

    /// How this client writes.
    pub(crate) fn writes(&self) -> &WriteOptions {
        &self.writes
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
        let response = self.serve.call(request).await?;
        for warning in &response.warnings {
            match &self.warned {
                Some(hear) => hear(warning),
                None => tracing::warn!(warning, "the server has something to say"),
            }
        }
        Ok(response)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("user", &self.user.name)
            .finish_non_exhaustive()
    }
}

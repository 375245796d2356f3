//! [`Client`]: a server and the user of its requests.

use std::fmt;
use std::sync::Arc;

use setpoint_api::options::{FieldValidation, WriteOptions};
use setpoint_api::{Gvr, Request, Response, Serve, Status, Target, User, Verb};

use crate::api::Api;
use crate::dynamic::DynamicApi;
use crate::http::{self, Http};
use crate::kubeconfig::Connection;
use crate::typed_object::Object;

/// A client of a server, with one user. Cloning shares the connection.
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
/// // The object in the response is decoded only on demand.
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
    write_options: WriteOptions,
    /// Called with each warning of the server. Without it, warnings are logged.
    warning_handler: Option<Arc<WarningHandler>>,
    metrics: Option<Arc<MetricsText>>,
}

/// Returns metrics in the Prometheus text format.
type MetricsText = dyn Fn() -> String + Send + Sync;

/// Called with the text of a warning.
type WarningHandler = dyn Fn(&str) + Send + Sync;

impl Client {
    /// A client whose requests carry `user`. That matters for a server in this process only; a remote server authenticates
    /// the credentials of the connection.
    pub fn new(serve: Arc<dyn Serve>, user: Arc<User>) -> Self {
        Self {
            serve,
            user,
            write_options: WriteOptions::default(),
            warning_handler: None,
            metrics: None,
        }
    }

    /// A client of a remote server, which authenticates the credentials of the connection.
    pub fn connect(connection: &Connection) -> Result<Self, http::Error> {
        Http::new(connection).map(Self::from_http)
    }

    /// A client of a remote server with options: protobuf, a rate limit, or metadata only.
    pub fn from_http(http: Http) -> Self {
        let metrics = http.clone();
        let metrics: Option<Arc<MetricsText>> = Some(Arc::new(move || metrics.metrics_text()));
        Self {
            metrics,
            ..Self::new(Arc::new(http), Arc::default())
        }
    }

    /// The metrics of its requests in the Prometheus text format; empty for a server in this process.
    pub fn metrics_text(&self) -> String {
        self.metrics.as_ref().map(|metrics| metrics()).unwrap_or_default()
    }

    /// The user of its requests.
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// The server.
    pub fn serve(&self) -> &Arc<dyn Serve> {
        &self.serve
    }

    /// The same server as another user.
    #[must_use]
    pub fn as_user(&self, user: User) -> Self {
        let user = Arc::new(user);
        Self { user, ..self.clone() }
    }

    /// The same user and options with another server, or with the same one behind a wrapper.
    #[must_use]
    pub fn with_serve(&self, serve: Arc<dyn Serve>) -> Self {
        Self {
            serve,
            ..self.clone()
        }
    }

    /// The same client with dry-run writes: the server returns the result and stores nothing.
    #[must_use]
    pub fn dry_run(&self) -> Self {
        let mut client = self.clone();
        client.write_options.dry_run = true;
        client
    }

    /// The same client, with this field manager for its writes.
    #[must_use]
    pub fn with_field_manager(&self, manager: &str) -> Self {
        let mut client = self.clone();
        client.write_options.field_manager = Some(manager.to_owned());
        client
    }

    /// The same client with strict field validation: writes with unknown or duplicate fields are rejected.
    #[must_use]
    pub fn strict(&self) -> Self {
        let mut client = self.clone();
        client.write_options.field_validation = FieldValidation::Strict;
        client
    }

    /// The same client with a handler for the warnings of the server: unknown fields, deprecated versions. Without a
    /// handler, warnings are logged.
    #[must_use]
    pub fn on_warning(&self, handler: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let warning_handler: Option<Arc<WarningHandler>> = Some(Arc::new(handler));
        Self {
            warning_handler,
            ..self.clone()
        }
    }

    /// The options of its writes.
    pub(crate) fn write_options(&self) -> &WriteOptions {
        &self.write_options
    }

    /// The objects of a type in the whole cluster.
    pub fn all<T: Object>(&self) -> Api<T> {
        self.namespaced("")
    }

    /// The objects of a type in one namespace; the empty namespace is the whole cluster, as in a key.
    pub fn namespaced<T: Object>(&self, namespace: &str) -> Api<T> {
        Api::new(self.dynamic(T::resource(), namespace))
    }

    /// The objects of a resource without a Rust type.
    pub fn dynamic(&self, resource: Gvr, namespace: &str) -> DynamicApi {
        DynamicApi::new(self.clone(), resource, namespace)
    }

    /// Sends a request, and passes the warnings of the response to the handler.
    pub async fn call(&self, target: Target, verb: Verb) -> Result<Response, Status> {
        let user = self.user.clone();
        let request = Request { user, target, verb };
        let response = self.serve.call(request).await?;
        for warning in &response.warnings {
            match &self.warning_handler {
                Some(handler) => handler(warning),
                None => tracing::warn!(warning, "warning from the server"),
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

//! Availability check of an aggregated API server, for the APIService's `Available` condition.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{Request, Uri};
use http_body_util::{Either, Full};
use setpoint_api::User;

use super::connection_pool::{ConnectionPool, OutgoingRequest};
use super::{Aggregator, Remote, remote_headers};

/// Number of concurrent requests; one success is enough.
const ATTEMPTS: usize = 5;
const TIMEOUT: Duration = Duration::from_secs(5);

impl Aggregator {
    /// Checks that a remote serves its registered version; the error has Kubernetes' text.
    pub async fn probe(&self, remote: &Remote) -> Result<(), String> {
        let pool = self.connection_pool(remote);
        let mut attempts: FuturesUnordered<_> = (0..ATTEMPTS).map(|_| self.attempt(remote, &pool)).collect();
        let mut outcome = Ok(());
        while let Some(attempted) = attempts.next().await {
            outcome = attempted;
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    async fn attempt(&self, remote: &Remote, pool: &ConnectionPool) -> Result<(), String> {
        let backend = (self.resolve)(&remote.service)?;
        let path = format!("/apis/{}/{}", remote.group, remote.version);
        let url = format!("https://{backend}{path}");
        let failing = |error: String| format!("failing or missing response from {url}: {error}");
        let response = tokio::select! {
            response = pool.send_once(&backend, aggregator_request(&path)) => response,
            () = self.clock.sleep(TIMEOUT) => Err(io::Error::other("context deadline exceeded")),
        };
        let response = response.map_err(|error| failing(format!("Get {url:?}: {error}")))?;
        match response.status() {
            code if code.is_success() => Ok(()),
            code => Err(failing(format!("bad status from {url}: {}", code.as_u16()))),
        }
    }
}

/// A GET of this server itself, as a user that is a member of system:masters and thus always authorized.
pub(super) fn aggregator_request(path: &str) -> OutgoingRequest {
    let mut request = Request::new(Either::Right(Full::default()));
    *request.uri_mut() = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
    remote_headers::set(request.headers_mut(), &aggregator_user())
        .expect("the name of the aggregator is valid in a header");
    request
}

fn aggregator_user() -> Arc<User> {
    Arc::new(User::new("system:kube-aggregator", &[User::MASTERS]))
}

//! Asks another server whether it is there.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{Request, Uri};
use http_body_util::{Either, Full};
use setpoint_api::User;

use super::line::{Asking, Line};
use super::{Aggregator, Remote, caller};

/// So many endpoints are tried at once; one that answers is enough.
const ATTEMPTS: usize = 5;
const TIMEOUT: Duration = Duration::from_secs(5);

impl Aggregator {
    /// Whether a server answers for the version it is registered for. If not, why, in Kubernetes' words.
    pub async fn probe(&self, remote: &Remote) -> Result<(), String> {
        let line = Line::new(remote, self.identity.as_ref(), self.tasks.clone());
        let mut attempts: FuturesUnordered<_> = (0..ATTEMPTS).map(|_| self.attempt(remote, &line)).collect();
        let mut outcome = Ok(());
        while let Some(attempted) = attempts.next().await {
            outcome = attempted;
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    async fn attempt(&self, remote: &Remote, line: &Line) -> Result<(), String> {
        let place = (self.resolve)(&remote.service)?;
        let path = format!("/apis/{}/{}", remote.group, remote.version);
        let url = format!("https://{place}{path}");
        let failing = |why: String| format!("failing or missing response from {url}: {why}");
        let answered = tokio::select! {
            answered = line.send_once(&place, question(&path)) => answered,
            () = self.clock.sleep(TIMEOUT) => Err(io::Error::other("context deadline exceeded")),
        };
        let answer = answered.map_err(|error| failing(format!("Get {url:?}: {error}")))?;
        match answer.status() {
            code if code.is_success() => Ok(()),
            code => Err(failing(format!("bad status from {url}: {}", code.as_u16()))),
        }
    }
}

/// A question of this server itself, which may be answered whatever rules the other has.
pub(super) fn question(path: &str) -> Asking {
    let mut request = Request::new(Either::Right(Full::default()));
    *request.uri_mut() = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
    caller::name(request.headers_mut(), &own());
    request
}

fn own() -> Arc<User> {
    Arc::new(User::new("system:kube-aggregator", &[User::MASTERS]))
}

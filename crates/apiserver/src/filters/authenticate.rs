//! Authentication of a request.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use setpoint_api::{Status, User};
use setpoint_auth::{Authenticate, Credentials};

use crate::negotiate::header;
use crate::request::options::StatusError;
use crate::tls::Peer;

/// Authenticates the caller. The client certificate is authenticated once per connection, an `Authorization` header
/// with every request.
pub(crate) fn user(
    authenticate: &dyn Authenticate,
    peer: &Peer,
    headers: &HeaderMap,
) -> Result<Arc<User>, StatusError> {
    if headers.contains_key(AUTHORIZATION) {
        return authenticate_with(authenticate, peer, Some(header(headers, &AUTHORIZATION)));
    }
    peer.user
        .get_or_init(|| authenticate_with(authenticate, peer, None))
        .clone()
}

fn authenticate_with(
    authenticate: &dyn Authenticate,
    peer: &Peer,
    authorization: Option<&str>,
) -> Result<Arc<User>, StatusError> {
    if peer.distrusted {
        return Err(Box::new(Status::unauthorized()));
    }
    let credentials = Credentials {
        certificate: peer.certificate.as_deref(),
        authorization,
    };
    match authenticate.authenticate(&credentials) {
        Ok(Some(user)) => Ok(user),
        Ok(None) => Err(Box::new(Status::unauthorized())),
        Err(reason) => {
            tracing::debug!(%reason, "credentials rejected");
            Err(Box::new(Status::unauthorized()))
        }
    }
}

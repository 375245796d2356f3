//! Who is calling.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use setpoint_api::{Status, User};
use setpoint_auth::{Authenticate, Credentials};

use crate::negotiate::header;
use crate::request::options::Refused;
use crate::tls::Peer;

/// Names the caller. A connection's certificate is read once; only requests with credentials of their own are asked again.
pub(crate) fn user(
    authenticate: &dyn Authenticate,
    peer: &Peer,
    headers: &HeaderMap,
) -> Result<Arc<User>, Refused> {
    if headers.contains_key(AUTHORIZATION) {
        return ask(authenticate, peer, Some(header(headers, &AUTHORIZATION)));
    }
    peer.user.get_or_init(|| ask(authenticate, peer, None)).clone()
}

fn ask(
    authenticate: &dyn Authenticate,
    peer: &Peer,
    authorization: Option<&str>,
) -> Result<Arc<User>, Refused> {
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
            tracing::debug!(%reason, "credentials refused");
            Err(Box::new(Status::unauthorized()))
        }
    }
}

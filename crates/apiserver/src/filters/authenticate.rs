//! Authentication of a request.

use std::sync::Arc;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use http::request::Parts;
use jiff::Timestamp;
use setpoint_api::{Status, User};
use setpoint_auth::{Authenticate, Credentials};

use crate::request::options::StatusError;
use crate::tls::Peer;

/// Authenticates the caller. The client certificate is authenticated once per connection, and only its expiry is checked
/// with every request; an `Authorization` header is authenticated with every request.
pub(crate) async fn user(
    authenticate: &dyn Authenticate,
    peer: &Peer,
    head: &Parts,
    now: Timestamp,
) -> Result<Arc<User>, StatusError> {
    let distrusted = peer.distrusted || peer.is_expired(now);
    let certificate = peer.certificate.as_deref().filter(|_| !distrusted);
    let mut credentials = Credentials {
        certificate,
        authorization: None,
        rejected: distrusted,
        path: head.uri.path(),
    };
    if let Some(value) = head.headers.get(AUTHORIZATION) {
        credentials.authorization = Some(text(value)?);
        return authenticate_with(authenticate, &credentials).await;
    }
    if distrusted {
        return Err(unauthorized());
    }
    if certificate.is_none() {
        return authenticate_with(authenticate, &credentials).await;
    }
    if let Some(user) = peer.user.get() {
        return user.clone();
    }
    let user = authenticate_with(authenticate, &credentials).await;
    peer.user.get_or_init(|| user).clone()
}

/// The text of an `Authorization` header. One that cannot be read is rejected, since its sender does not expect to be
/// anonymous.
fn text(value: &HeaderValue) -> Result<&str, StatusError> {
    str::from_utf8(value.as_bytes()).map_err(|_| unauthorized())
}

async fn authenticate_with(
    authenticate: &dyn Authenticate,
    credentials: &Credentials<'_>,
) -> Result<Arc<User>, StatusError> {
    match authenticate.authenticate(credentials).resolve().await {
        Ok(Some(user)) => Ok(user),
        Ok(None) => Err(unauthorized()),
        Err(reason) => {
            tracing::debug!(%reason, "credentials rejected");
            Err(unauthorized())
        }
    }
}

fn unauthorized() -> StatusError {
    Box::new(Status::unauthorized())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use setpoint_auth::MaybeFuture;
    use setpoint_auth::authenticate::AuthenticationResult;

    use super::*;

    /// Knows the certificate `cert` and the token of the header `token`; other callers are anonymous.
    struct TestAuthenticator;

    impl Authenticate for TestAuthenticator {
        fn authenticate<'a>(
            &'a self,
            credentials: &'a Credentials<'a>,
        ) -> MaybeFuture<'a, AuthenticationResult> {
            let name = match (credentials.certificate, credentials.authorization) {
                (Some(b"cert"), _) => "certificate",
                (_, Some("token")) => "token",
                _ if credentials.rejected => return Ok(None).into(),
                _ => "anonymous",
            };
            Ok(Some(Arc::new(User::new(name, &[])))).into()
        }
    }

    fn peer() -> Peer {
        Peer {
            certificate: Some(b"cert".to_vec()),
            expires: Some(Timestamp::from_second(10).unwrap()),
            ..Peer::default()
        }
    }

    /// The user of a request at this second, or the code of the error.
    #[track_caller]
    fn check(peer: &Peer, authorization: Option<&[u8]>, second: i64, expected: Result<&str, u16>) {
        let (mut head, ()) = http::Request::new(()).into_parts();
        if let Some(value) = authorization {
            let value = HeaderValue::from_bytes(value).unwrap();
            head.headers.insert(AUTHORIZATION, value);
        }
        let now = Timestamp::from_second(second).unwrap();
        let user = user(&TestAuthenticator, peer, &head, now).now_or_never().unwrap();
        let user = user.as_ref().map(|user| user.name.as_str());
        assert_eq!(user.map_err(|status| status.code), expected);
    }

    #[test]
    fn a_certificate_that_expires_during_its_connection_is_unauthorized() {
        let peer = peer();
        check(&peer, None, 0, Ok("certificate"));
        check(&peer, None, 10, Ok("certificate"));
        check(&peer, None, 11, Err(401));
        check(&peer, Some(b"token"), 0, Ok("certificate"));
        check(&peer, Some(b"token"), 11, Ok("token"));
        check(&peer, Some(b"other"), 11, Err(401));
    }

    #[test]
    fn a_token_is_taken_beside_a_certificate_that_is_not_trusted() {
        let peer = Peer {
            distrusted: true,
            ..Peer::default()
        };
        check(&peer, None, 0, Err(401));
        check(&peer, Some(b"token"), 0, Ok("token"));
        check(&peer, Some(b"other"), 0, Err(401));
    }

    #[test]
    fn an_authorization_header_that_is_not_utf8_is_not_anonymous() {
        check(&Peer::default(), Some(b"Bearer \xff"), 0, Err(401));
        check(&Peer::default(), None, 0, Ok("anonymous"));
    }
}

//! Impersonation, by the `Impersonate-*` headers.

use http::{HeaderMap, HeaderName};
use setpoint_api::User;
use setpoint_auth::Authorize;
use setpoint_auth::impersonate::{ImpersonatedUser, RequestedUser, impersonate};

use crate::negotiate::header;
use crate::request::RequestInfo;
use crate::request::options::StatusError;
use crate::request::query::decode;

static NAME: HeaderName = HeaderName::from_static("impersonate-user");
static UID: HeaderName = HeaderName::from_static("impersonate-uid");
static GROUP: HeaderName = HeaderName::from_static("impersonate-group");
/// Prefix of the headers with the user's extra fields.
const EXTRA: &str = "impersonate-extra-";

/// The impersonated user; `None` if the request has no such headers, an error if the caller is not allowed to.
pub(crate) fn user(
    authorizer: &dyn Authorize,
    caller: &User,
    headers: &HeaderMap,
    request_info: &RequestInfo<'_>,
) -> Result<Option<ImpersonatedUser>, StatusError> {
    let requested = requested_user(headers);
    if requested == RequestedUser::default() {
        return Ok(None);
    }
    impersonate(authorizer, caller, &requested, &request_info.attributes()).map(Some)
}

fn requested_user(headers: &HeaderMap) -> RequestedUser {
    let mut requested = RequestedUser {
        name: text(headers, &NAME),
        uid: text(headers, &UID),
        ..RequestedUser::default()
    };
    let groups = headers
        .get_all(&GROUP)
        .iter()
        .filter_map(|value| value.to_str().ok());
    requested.groups = groups.map(str::to_owned).collect();
    for (name, value) in headers {
        if let (Some(key), Ok(value)) = (name.as_str().strip_prefix(EXTRA), value.to_str()) {
            requested
                .extra
                .entry(decode(key, false).into_owned())
                .or_default()
                .push(value.to_owned());
        }
    }
    requested
}

fn text(headers: &HeaderMap, name: &HeaderName) -> String {
    header(headers, name).to_owned()
}

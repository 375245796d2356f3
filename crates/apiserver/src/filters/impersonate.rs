//! Acting as someone else, by headers.

use http::{HeaderMap, HeaderName};
use setpoint_api::User;
use setpoint_auth::Authorize;
use setpoint_auth::impersonate::{Impersonated, Wanted, impersonate};

use crate::negotiate::header;
use crate::request::Asked;
use crate::request::options::Refused;
use crate::request::query::decode;

static NAME: HeaderName = HeaderName::from_static("impersonate-user");
static UID: HeaderName = HeaderName::from_static("impersonate-uid");
static GROUP: HeaderName = HeaderName::from_static("impersonate-group");
/// How the names of the headers start that say more about the user.
const EXTRA: &str = "impersonate-extra-";

/// Whom the caller wants to be, if it wants to be someone else and may.
pub(crate) fn user(
    authorizer: &dyn Authorize,
    caller: &User,
    headers: &HeaderMap,
    asked: &Asked<'_>,
) -> Result<Option<Impersonated>, Refused> {
    let wanted = wanted(headers);
    if wanted == Wanted::default() {
        return Ok(None);
    }
    impersonate(authorizer, caller, &wanted, &asked.attributes()).map(Some)
}

fn wanted(headers: &HeaderMap) -> Wanted {
    let mut wanted = Wanted {
        name: text(headers, &NAME),
        uid: text(headers, &UID),
        ..Wanted::default()
    };
    let groups = headers
        .get_all(&GROUP)
        .iter()
        .filter_map(|value| value.to_str().ok());
    wanted.groups = groups.map(str::to_owned).collect();
    for (name, value) in headers {
        if let (Some(key), Ok(value)) = (name.as_str().strip_prefix(EXTRA), value.to_str()) {
            wanted
                .extra
                .entry(decode(key, false).into_owned())
                .or_default()
                .push(value.to_owned());
        }
    }
    wanted
}

fn text(headers: &HeaderMap, name: &HeaderName) -> String {
    header(headers, name).to_owned()
}

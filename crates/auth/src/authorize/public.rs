//! What everyone may read: health and version.

use setpoint_api::User;

use super::{Attributes, Authorize, Decision, Object};

/// Each path stands for itself and for what is below it.
const PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Lets everyone read health and version, so that a probe needs no credentials.
#[derive(Debug, Clone, Copy, Default)]
pub struct PublicPaths;

impl Authorize for PublicPaths {
    fn authorize(&self, _: &User, attributes: &Attributes<'_>) -> Decision {
        match attributes.object {
            Object::Path(path) if attributes.verb == "get" && is_public(path) => Decision::Allowed,
            _ => Decision::NoOpinion,
        }
    }
}

fn is_public(path: &str) -> bool {
    let below = |root: &str| {
        path.strip_prefix(root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    PATHS.iter().any(|root| below(root))
}

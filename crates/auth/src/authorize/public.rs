//! What everyone may read as long as no rules say so: health and version.

use std::fmt;
use std::sync::Arc;

use setpoint_api::{GroupResource, User};
use setpoint_cache::{Cache, Caches};

use super::{Attributes, Authorize, Decision, Object, Reason};

/// Each path stands for itself and for what is below it.
const PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Lets everyone read health and version, so that a probe needs no credentials.
///
/// A cluster's own rules say who may read them. Until the first rule is stored, a probe must be answered all the same.
#[derive(Default)]
pub struct PublicPaths {
    caches: Option<Arc<dyn Caches>>,
}

impl PublicPaths {
    /// Whatever rules there are.
    pub fn always() -> Self {
        Self::default()
    }

    /// Until there are rules.
    pub fn until_rules(caches: Arc<dyn Caches>) -> Self {
        Self { caches: Some(caches) }
    }

    fn are_open(&self) -> bool {
        let roles = |caches: &Arc<dyn Caches>| {
            caches.cache(&GroupResource::new("rbac.authorization.k8s.io", "clusterroles"))
        };
        let has_rules = |cache: Arc<Cache>| !cache.snapshot().is_empty();
        !self.caches.as_ref().and_then(roles).is_some_and(has_rules)
    }
}

impl Authorize for PublicPaths {
    fn authorize(&self, _: &User, attributes: &Attributes<'_>) -> Decision {
        match attributes.object {
            Object::Path(path) if attributes.verb == "get" && is_public(path) && self.are_open() => {
                Decision::Allowed(Reason::None)
            }
            _ => Decision::NO_OPINION,
        }
    }
}

impl fmt::Debug for PublicPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicPaths").finish_non_exhaustive()
    }
}

fn is_public(path: &str) -> bool {
    let below = |root: &str| {
        path.strip_prefix(root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    PATHS.iter().any(|root| below(root))
}

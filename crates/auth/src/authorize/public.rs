//! Public paths: health and version, readable by all users until RBAC rules are stored.

use std::fmt;
use std::sync::Arc;

use setpoint_api::{GroupResource, HttpVerb, User};
use setpoint_cache::{Cache, Caches};

use super::{AccessTarget, Attributes, Authorize, Decision, Reason};
use crate::maybe_future::MaybeFuture;

/// Each path includes its subpaths.
const PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Allows all users to read health and version, so that a probe needs no credentials.
///
/// The RBAC rules of a cluster specify who may read them. Until the first rule is stored, probes must succeed too.
#[derive(Default)]
pub struct PublicPaths {
    caches: Option<Arc<dyn Caches>>,
}

impl PublicPaths {
    /// Regardless of RBAC rules.
    pub fn always() -> Self {
        Self::default()
    }

    /// Until there are RBAC rules.
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
    fn authorize<'a>(&'a self, _: &'a User, attributes: &'a Attributes<'a>) -> MaybeFuture<'a, Decision> {
        let decision = match attributes.target {
            AccessTarget::Path(path)
                if attributes.verb == HttpVerb::Get && is_public(path) && self.are_open() =>
            {
                Decision::Allowed(Reason::None)
            }
            _ => Decision::NO_OPINION,
        };
        decision.into()
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

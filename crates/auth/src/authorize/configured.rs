//! The authorizers that the server's configuration names, in order, and their replacement at run time.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use setpoint_api::User;
use setpoint_cache::Caches;

use super::{
    AlwaysAllow, AlwaysDeny, Attributes, Authorize, Chain, Decision, NodeAuthorizer, PublicPaths, Rbac,
    UserRules,
};
use crate::maybe_future::MaybeFuture;

/// An authorizer that the configuration names (upstream: authorization modes).
pub enum ConfiguredAuthorizer {
    AlwaysAllow,
    AlwaysDeny,
    Node,
    Rbac,
    Webhook {
        name: String,
        webhook: Arc<dyn Authorize>,
    },
}

/// Builds chains of configured authorizers. The node and RBAC authorizers, which have state, are shared by all of them.
pub struct ChainBuilder {
    caches: Arc<dyn Caches>,
    node: Arc<NodeAuthorizer>,
    rbac: Arc<Rbac>,
}

/// A chain that is replaced when its configuration file changes.
pub struct ReloadableAuthorizer {
    builder: ChainBuilder,
    current: RwLock<Arc<Chain>>,
}

// === impl ConfiguredAuthorizer ===

impl ConfiguredAuthorizer {
    /// The authorizers of a server by default.
    pub fn defaults() -> Vec<Self> {
        vec![Self::Node, Self::Rbac]
    }
}

impl fmt::Debug for ConfiguredAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlwaysAllow => "AlwaysAllow",
            Self::AlwaysDeny => "AlwaysDeny",
            Self::Node => "Node",
            Self::Rbac => "RBAC",
            Self::Webhook { name, .. } => name,
        })
    }
}

// === impl ChainBuilder ===

impl ChainBuilder {
    pub fn new(caches: &Arc<dyn Caches>, rbac: Arc<Rbac>) -> Self {
        Self {
            caches: caches.clone(),
            node: Arc::new(NodeAuthorizer::new(caches.clone())),
            rbac,
        }
    }

    /// The chain of these authorizers, after the privileged group.
    pub fn build(&self, authorizers: Vec<ConfiguredAuthorizer>) -> Chain {
        let mut chain = Chain::privileged();
        for one in authorizers {
            match one {
                ConfiguredAuthorizer::AlwaysAllow => chain.push("alwaysallow", AlwaysAllow),
                ConfiguredAuthorizer::AlwaysDeny => chain.push("alwaysdeny", AlwaysDeny),
                ConfiguredAuthorizer::Node => chain.push("node", self.node.clone()),
                ConfiguredAuthorizer::Rbac => {
                    chain.push("rbac", self.rbac.clone());
                    chain.push("public", PublicPaths::until_rules(self.caches.clone()));
                }
                ConfiguredAuthorizer::Webhook { name, webhook } => chain.push(name, webhook),
            }
        }
        chain
    }
}

// === impl ReloadableAuthorizer ===

impl ReloadableAuthorizer {
    pub fn new(builder: ChainBuilder, authorizers: Vec<ConfiguredAuthorizer>) -> Self {
        let current = RwLock::new(Arc::new(builder.build(authorizers)));
        Self { builder, current }
    }

    /// Replaces the chain. Requests that are being authorized finish with the old one.
    pub fn replace(&self, authorizers: Vec<ConfiguredAuthorizer>) {
        let chain = Arc::new(self.builder.build(authorizers));
        *self.current.write() = chain;
    }
}

impl Authorize for ReloadableAuthorizer {
    fn authorize<'a>(&'a self, user: &'a User, attributes: &'a Attributes<'a>) -> MaybeFuture<'a, Decision> {
        let chain = self.current.read().clone();
        if let MaybeFuture::Ready(decision) = chain.authorize(user, attributes) {
            return decision.into();
        }
        // A future that waits for a remote server does nothing until it is polled: dropping it cost nothing.
        MaybeFuture::pending(async move { chain.authorize(user, attributes).resolve().await })
    }

    fn rules_for(&self, user: &User, namespace: &str) -> UserRules {
        let chain = self.current.read().clone();
        chain.rules_for(user, namespace)
    }
}

impl fmt::Debug for ReloadableAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReloadableAuthorizer")
            .field(&self.current.read())
            .finish()
    }
}

impl fmt::Debug for ChainBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChainBuilder").finish_non_exhaustive()
    }
}

//! [`AccessControl`]: the authenticators and authorizers of a cluster, assembled.

use std::sync::Arc;

use setpoint_api::Clock;
use setpoint_cache::Caches;
use setpoint_registry_api::Admit;

use crate::authenticate::{
    self, Authenticate, BootstrapTokens, OnTokenUse, SecretTokens, ServiceAccounts, TokenAuthenticator,
    TokenChain, TokenFile,
};
use crate::authorize::{self, Authorize, Rbac};
use crate::create_on_update::CreateAuthorization;
use crate::escalate::{EscalationCheck, Guard};
use crate::review::Reviews;
use crate::token::Issuer;

/// Token authentication, authorization and token issuing over one set of caches.
#[derive(Debug)]
pub struct AccessControl {
    pub issuer: Arc<Issuer>,
    pub tokens: Arc<TokenChain>,
    pub rbac: Arc<Rbac>,
    pub authorizer: Arc<authorize::Chain>,
}

impl AccessControl {
    /// `file` has static tokens besides those of the cluster; `on_use` is called when a token of a Secret is used.
    pub fn new(
        caches: &Arc<dyn Caches>,
        clock: &Arc<dyn Clock>,
        issuer: Arc<Issuer>,
        file: Option<TokenFile>,
        on_use: OnTokenUse,
    ) -> Self {
        let audiences = &issuer.audiences;
        let mut authenticators: Vec<Box<dyn TokenAuthenticator>> = Vec::new();
        authenticators.extend(file.map(|file| Box::new(file) as Box<dyn TokenAuthenticator>));
        authenticators.push(Box::new(SecretTokens::new(
            issuer.clone(),
            caches.clone(),
            on_use,
        )));
        authenticators.push(Box::new(ServiceAccounts::new(
            issuer.clone(),
            caches.clone(),
            clock.clone(),
        )));
        authenticators.push(Box::new(BootstrapTokens::new(
            audiences.clone(),
            caches.clone(),
            clock.clone(),
        )));
        let rbac = Arc::new(Rbac::new(caches.clone()));
        Self {
            tokens: Arc::new(TokenChain::new(audiences.clone(), authenticators)),
            authorizer: Arc::new(authorize::cluster_authorizers(caches, rbac.clone())),
            rbac,
            issuer,
        }
    }

    /// The authenticators, in order.
    pub fn authenticate(&self) -> Vec<Box<dyn Authenticate>> {
        authenticate::cluster_authenticators(self.tokens.clone())
    }

    /// The privilege escalation check for writes of roles and bindings.
    pub fn escalation(&self) -> EscalationCheck {
        EscalationCheck::new(self.rbac.clone(), self.authorizer())
    }

    /// Wraps admission with the checks that depend on permissions: the escalation check, and that of creates by an update
    /// or an apply.
    pub fn guard<A: Admit>(&self, rules: A) -> CreateAuthorization<Guard<A>> {
        CreateAuthorization::new(self.authorizer(), self.escalation().guard(rules))
    }

    /// The handler of reviews and token requests.
    pub fn reviews(&self) -> Reviews {
        Reviews {
            authorizer: self.authorizer(),
            rbac: self.rbac.clone(),
            tokens: self.tokens.clone(),
            issuer: self.issuer.clone(),
        }
    }

    fn authorizer(&self) -> Arc<dyn Authorize> {
        self.authorizer.clone()
    }
}

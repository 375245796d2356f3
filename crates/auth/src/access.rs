//! Everything a cluster needs to know its callers, put together.

use std::sync::Arc;

use setpoint_api::Clock;
use setpoint_cache::Caches;

use crate::authenticate::{
    self, Authenticate, BootstrapTokens, NoteUse, SecretTokens, ServiceAccounts, TokenChain, TokenFile,
    Tokens,
};
use crate::authorize::{self, Authorize, Rbac};
use crate::escalate::Escalation;
use crate::review::Reviews;
use crate::token::Issuer;

/// Who may come in and what they may do, over one set of caches.
#[derive(Debug)]
pub struct Access {
    pub issuer: Arc<Issuer>,
    pub tokens: Arc<TokenChain>,
    pub rbac: Arc<Rbac>,
    pub authorizer: Arc<authorize::Chain>,
}

impl Access {
    /// `file` holds tokens that are known besides those of the cluster itself; `note` is told when one in a secret is used.
    pub fn new(
        caches: &Arc<dyn Caches>,
        clock: &Arc<dyn Clock>,
        issuer: Arc<Issuer>,
        file: Option<TokenFile>,
        note: NoteUse,
    ) -> Self {
        let audiences = &issuer.audiences;
        let mut kinds: Vec<Box<dyn Tokens>> = Vec::new();
        kinds.extend(file.map(|file| Box::new(file) as Box<dyn Tokens>));
        kinds.push(Box::new(SecretTokens::new(issuer.clone(), caches.clone(), note)));
        kinds.push(Box::new(ServiceAccounts::new(
            issuer.clone(),
            caches.clone(),
            clock.clone(),
        )));
        kinds.push(Box::new(BootstrapTokens::new(
            audiences.clone(),
            caches.clone(),
            clock.clone(),
        )));
        let rbac = Arc::new(Rbac::new(caches.clone()));
        Self {
            tokens: Arc::new(TokenChain::new(audiences.clone(), kinds)),
            authorizer: Arc::new(authorize::of_cluster(caches, rbac.clone())),
            rbac,
            issuer,
        }
    }

    /// Who is calling.
    pub fn authenticate(&self) -> Vec<Box<dyn Authenticate>> {
        authenticate::of_cluster(self.tokens.clone())
    }

    /// The check of writes to roles and bindings.
    pub fn escalation(&self) -> Escalation {
        Escalation::new(self.rbac.clone(), self.authorizer())
    }

    /// The answers to reviews and token requests.
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

//! [`AccessControl`]: the authenticators and authorizers of a cluster, assembled.

use std::fmt;
use std::sync::Arc;

use setpoint_api::{Clock, Stored};
use setpoint_cache::Caches;
use setpoint_registry_api::Admit;

use crate::authenticate::{
    self, Anonymous, Authenticate, BootstrapTokens, OnTokenUse, RemoteTokenAuthenticator, SecretTokens,
    ServiceAccounts, TokenAuthenticator, TokenChain, TokenFile,
};
use crate::authorize::{Authorize, ChainBuilder, ConfiguredAuthorizer, Rbac, ReloadableAuthorizer};
use crate::create_on_update::CreateAuthorization;
use crate::escalate::{EscalationCheck, Guard};
use crate::review::Reviews;
use crate::token::Issuer;

/// Token authentication, authorization and token issuing over one set of caches.
pub struct AccessControl {
    pub issuer: Arc<Issuer>,
    pub tokens: Arc<TokenChain>,
    pub rbac: Arc<Rbac>,
    pub authorizer: Arc<dyn Authorize>,
    /// The authorizer again, if its configuration may change.
    pub reloadable: Option<Arc<ReloadableAuthorizer>>,
    /// The paths that may be requested anonymously, all if there are none; absent if anonymous requests are rejected.
    anonymous: Option<Vec<String>>,
}

/// The configuration of authentication and authorization.
pub struct AccessOptions {
    /// The issuer of service account tokens.
    pub issuer: Arc<Issuer>,
    /// Static tokens besides those of the cluster.
    pub token_file: Option<TokenFile>,
    /// Whether legacy tokens are valid only while their Secret and service account exist.
    pub service_account_lookup: bool,
    /// Called when a token of a Secret is used.
    pub on_token_use: OnTokenUse,
    /// OpenID providers and webhooks, which are tried after all others.
    pub remote_tokens: Vec<Box<dyn RemoteTokenAuthenticator>>,
    /// The paths that may be requested anonymously, all if there are none; absent to reject anonymous requests.
    pub anonymous: Option<Vec<String>>,
    pub authorizers: Vec<ConfiguredAuthorizer>,
    /// Whether the authorizers may be replaced later.
    pub reload_authorizers: bool,
}

// === impl AccessOptions ===

impl AccessOptions {
    /// The defaults of a cluster with this issuer.
    pub fn new(issuer: Arc<Issuer>) -> Self {
        Self {
            issuer,
            token_file: None,
            service_account_lookup: true,
            on_token_use: Arc::new(|_: &Stored| {}),
            remote_tokens: Vec::new(),
            anonymous: Some(Vec::new()),
            authorizers: ConfiguredAuthorizer::defaults(),
            reload_authorizers: false,
        }
    }

    /// The authenticators of tokens that decide from memory, in order.
    fn local_tokens(
        &mut self,
        caches: &Arc<dyn Caches>,
        clock: &Arc<dyn Clock>,
    ) -> Vec<Box<dyn TokenAuthenticator>> {
        let file = self.token_file.take();
        let file = file.map(|file| Box::new(file) as Box<dyn TokenAuthenticator>);
        let secrets = SecretTokens::new(self.issuer.clone(), caches.clone(), self.on_token_use.clone());
        let accounts = ServiceAccounts::new(self.issuer.clone(), caches.clone(), clock.clone());
        let bootstrap = BootstrapTokens::new(self.issuer.audiences.clone(), caches.clone(), clock.clone());
        let mut all: Vec<_> = file.into_iter().collect();
        all.push(Box::new(secrets.with_lookup(self.service_account_lookup)));
        all.push(Box::new(accounts));
        all.push(Box::new(bootstrap));
        all
    }
}

// === impl AccessControl ===

impl AccessControl {
    pub fn new(caches: &Arc<dyn Caches>, clock: &Arc<dyn Clock>, mut options: AccessOptions) -> Self {
        let local = options.local_tokens(caches, clock);
        let tokens = TokenChain::new(options.issuer.audiences.clone(), local);
        let rbac = Arc::new(Rbac::new(caches.clone()));
        let builder = ChainBuilder::new(caches, rbac.clone());
        let (authorizer, reloadable): (Arc<dyn Authorize>, _) = if options.reload_authorizers {
            let reloadable = Arc::new(ReloadableAuthorizer::new(builder, options.authorizers));
            (reloadable.clone(), Some(reloadable))
        } else {
            (Arc::new(builder.build(options.authorizers)), None)
        };
        Self {
            issuer: options.issuer,
            tokens: Arc::new(tokens.with_remote(options.remote_tokens)),
            rbac,
            authorizer,
            reloadable,
            anonymous: options.anonymous,
        }
    }

    /// The authenticators, in order.
    pub fn authenticate(&self) -> Vec<Box<dyn Authenticate>> {
        let anonymous = self.anonymous.clone().map(Anonymous::on_paths);
        authenticate::cluster_authenticators(self.tokens.clone(), anonymous)
    }

    /// The privilege escalation check for writes of roles and bindings.
    pub fn escalation(&self) -> EscalationCheck {
        EscalationCheck::new(self.rbac.clone(), self.authorizer.clone())
    }

    /// Wraps admission with the checks that depend on permissions: the escalation check, and that of creates by an update
    /// or an apply.
    pub fn guard<A: Admit>(&self, rules: A) -> CreateAuthorization<Guard<A>> {
        CreateAuthorization::new(self.authorizer.clone(), self.escalation().guard(rules))
    }

    /// The handler of reviews and token requests.
    pub fn reviews(&self) -> Reviews {
        Reviews {
            authorizer: self.authorizer.clone(),
            tokens: self.tokens.clone(),
            issuer: self.issuer.clone(),
        }
    }
}

impl fmt::Debug for AccessControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessControl").finish_non_exhaustive()
    }
}

impl fmt::Debug for AccessOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessOptions")
            .field("authorizers", &self.authorizers)
            .finish_non_exhaustive()
    }
}

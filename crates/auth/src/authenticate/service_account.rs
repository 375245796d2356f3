//! Service account tokens: the signature proves the claims, the caches whether the bound objects still exist.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use setpoint_api::{Clock, GroupResource, Key, Stored, User};
use setpoint_cache::Caches;

use super::bearer::{TokenAuthenticator, intersect};
use super::{AuthenticationError, CREDENTIAL_ID, TokenIdentity};
use crate::service_account::{groups, user_name};
use crate::token::claims::LEEWAY_SECONDS;
use crate::token::{Claims, Issuer, Ref};

const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";
/// The error for a token whose bound object does not exist any more.
const INVALIDATED: &str = "service account token has been invalidated";

/// Authenticates the tokens of one issuer.
pub struct ServiceAccounts {
    issuer: Arc<Issuer>,
    caches: Arc<dyn Caches>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Deserialize)]
struct Deletion {
    metadata: DeletionMeta,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeletionMeta {
    deletion_timestamp: Option<Timestamp>,
}

impl ServiceAccounts {
    pub fn new(issuer: Arc<Issuer>, caches: Arc<dyn Caches>, clock: Arc<dyn Clock>) -> Self {
        Self {
            issuer,
            caches,
            clock,
        }
    }

    /// Checks that all objects in the claims still exist, with the same UIDs.
    fn check_objects(&self, claims: &Claims) -> Result<(), AuthenticationError> {
        let (named, now) = (&claims.kubernetes, self.clock.now());
        let namespace = named.namespace.as_str();
        self.check_account(namespace, &named.service_account, now)?;
        if let Some(secret) = &named.secret {
            self.check_bound("secrets", namespace, secret, now)?;
        }
        if let Some(pod) = &named.pod {
            self.check_bound("pods", namespace, pod, now)?;
        }
        // The node of a pod is in the claims, but the token is bound to the pod.
        if let (Some(node), None) = (&named.node, &named.pod) {
            self.check_bound("nodes", "", node, now)?;
        }
        Ok(())
    }

    fn check_account(
        &self,
        namespace: &str,
        account: &Ref,
        now: Timestamp,
    ) -> Result<(), AuthenticationError> {
        let name = &account.name;
        let Some(found) = self.object("serviceaccounts", namespace, name) else {
            return reject(format!("serviceaccounts {name:?} not found"));
        };
        if found.uid() != account.uid {
            return reject(format!(
                "service account UID ({}) does not match claim ({})",
                found.uid(),
                account.uid
            ));
        }
        match is_past_deletion(&found, now) {
            true => reject(format!("service account {namespace}/{name} has been deleted")),
            false => Ok(()),
        }
    }

    fn check_bound(
        &self,
        resource: &str,
        namespace: &str,
        bound: &Ref,
        now: Timestamp,
    ) -> Result<(), AuthenticationError> {
        let Some(found) = self.object(resource, namespace, &bound.name) else {
            return reject(INVALIDATED.to_owned());
        };
        if found.uid() != bound.uid {
            let kind = resource.trim_end_matches('s');
            return reject(format!(
                "{kind} UID ({}) does not match service account {kind} ref claim ({})",
                found.uid(),
                bound.uid
            ));
        }
        match is_past_deletion(&found, now) {
            true => reject(INVALIDATED.to_owned()),
            false => Ok(()),
        }
    }

    fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        let cache = self.caches.cache(&GroupResource::new("", resource))?;
        cache.find(&Key::new(namespace, name))
    }
}

fn reject(why: String) -> Result<(), AuthenticationError> {
    Err(AuthenticationError(why))
}

/// Whether the object's deletion timestamp has passed. A terminating object may use its token until then.
fn is_past_deletion(object: &Stored, now: Timestamp) -> bool {
    if !object.header().deleting {
        return false;
    }
    let Ok(deletion) = object.decode::<Deletion>() else {
        return true;
    };
    let deadline = deletion.metadata.deletion_timestamp;
    deadline.is_some_and(|deadline| deadline.as_second() < now.as_second() - LEEWAY_SECONDS)
}

impl TokenAuthenticator for ServiceAccounts {
    fn authenticate_token(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<Option<TokenIdentity>, AuthenticationError> {
        let verified = self.issuer.verify(token);
        let Some(claims) = verified.map_err(|invalid| AuthenticationError(invalid.0))? else {
            return Ok(None);
        };
        let own = match claims.audiences.is_empty() {
            true => &self.issuer.audiences,
            false => &claims.audiences,
        };
        let matching = intersect(own, audiences);
        if matching.is_empty() {
            return Err(AuthenticationError(format!(
                "token audiences {} is invalid for the target audiences {}",
                crate::authorize::rule::quoted(own),
                crate::authorize::rule::quoted(audiences)
            )));
        }
        claims
            .check_time(self.clock.now())
            .map_err(|why| AuthenticationError(why.to_owned()))?;
        self.check_objects(&claims)?;
        Ok(Some(TokenIdentity {
            user: Arc::new(user_of(&claims)),
            audiences: matching,
        }))
    }
}

fn user_of(claims: &Claims) -> User {
    let named = &claims.kubernetes;
    let mut user = User {
        name: user_name(&named.namespace, &named.service_account.name),
        uid: named.service_account.uid.clone(),
        groups: groups(&named.namespace),
        ..User::default()
    };
    let mut set_extra = |key: &str, value: &str| {
        if !value.is_empty() {
            user.extra.insert(key.to_owned(), vec![value.to_owned()]);
        }
    };
    if let Some(pod) = &named.pod {
        set_extra(POD_NAME, &pod.name);
        set_extra(POD_UID, &pod.uid);
    }
    if let Some(node) = &named.node {
        set_extra(NODE_NAME, &node.name);
        set_extra(NODE_UID, &node.uid);
    }
    if !claims.id.is_empty() {
        set_extra(CREDENTIAL_ID, &format!("JTI={}", claims.id));
    }
    user
}

impl fmt::Debug for ServiceAccounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccounts")
            .field("issuer", &self.issuer.url)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

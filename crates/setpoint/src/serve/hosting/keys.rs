//! The credentials of a hosted cluster: in memory only, and no two clusters share any.
//!
//! [`KeyPool`] generates some ahead of the requests that create clusters, since that takes longer than most of a fork.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use setpoint_api::Clock;
use setpoint_apiserver::tls::ClientAuthorities;
use setpoint_auth::Issuer;
use setpoint_auth::authenticate::TokenFile;
use setpoint_auth::keys::SigningKey;
use setpoint_controllers::ClusterCertificates;
use setpoint_controllers::certificates::Authority;
use setpoint_kinds::bootstrap::{PROXY_NAME, RequestHeaderInfo};
use setpoint_pki::HostedPki;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use super::Host;
use crate::serve::credentials::Credentials;

/// The name and the group of the administrator, as in the kubeconfig of a server.
const ADMINISTRATOR: &str = "kubernetes-admin,,system:masters";

/// How many sets of keys are ready: as many clusters as tests in parallel create at once.
const READY_KEYS: usize = 4;
/// Older keys are not used: their certificates would expire before those of a cluster that is created now.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(1);
/// Delay before keys are generated again after an error.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Keys that are ready before a request needs them.
#[derive(Default)]
pub(super) struct KeyPool {
    ready: Mutex<Vec<GeneratedKeys>>,
    /// Notified when keys were taken.
    taken: Notify,
}

/// The private keys of one cluster and their certificates, whatever its name is.
struct GeneratedKeys {
    pki: HostedPki,
    signing: SigningKey,
    client_authorities: Arc<ClientAuthorities>,
    generated_at: Timestamp,
}

/// The keys of a new cluster.
pub(super) struct Keys {
    pub(super) credentials: Credentials,
    /// The bearer token of the administrator. Unlike a client certificate it does not need a connection of its own.
    pub(super) administrator: String,
    /// Held while the cluster runs: its controllers wait for changes.
    pub(super) certificates: watch::Sender<ClusterCertificates>,
}

impl KeyPool {
    /// Generates keys whenever some were taken. Never returns.
    pub(super) async fn fill(&self, clock: &Arc<dyn Clock>) -> Infallible {
        loop {
            while self.ready.lock().len() < READY_KEYS {
                match GeneratedKeys::generate(clock.now()) {
                    Ok(keys) => self.ready.lock().push(keys),
                    Err(error) => {
                        let error = format!("{error:#}");
                        tracing::warn!(error, "cannot generate keys of a hosted cluster");
                        clock.sleep(RETRY_DELAY).await;
                    }
                }
                // Each takes part of a millisecond. Requests come first.
                tokio::task::yield_now().await;
            }
            self.taken.notified().await;
        }
    }

    /// Keys that no other cluster has or gets: of the pool, unless it is empty.
    fn take(&self, now: Timestamp) -> Result<GeneratedKeys> {
        let taken = {
            let mut ready = self.ready.lock();
            ready.retain(|keys| now.duration_since(keys.generated_at) < MAX_AGE);
            ready.pop()
        };
        self.taken.notify_one();
        match taken {
            Some(keys) => Ok(keys),
            None => GeneratedKeys::generate(now),
        }
    }
}

impl GeneratedKeys {
    fn generate(now: Timestamp) -> Result<Self> {
        let pki = HostedPki::generate(PROXY_NAME, now)?;
        let signing = SigningKey::from_pem(&SigningKey::generate()?);
        Ok(Self {
            client_authorities: ClientAuthorities::new(&[pki.authority.certificate_der()?], &[])?,
            signing: signing.context("cannot use the generated key")?,
            pki,
            generated_at: now,
        })
    }
}

impl Keys {
    /// The keys of a new cluster at this URL.
    pub(super) fn new(host: &Host, pool: &KeyPool, url: &str) -> Result<Self> {
        let GeneratedKeys {
            pki,
            signing,
            client_authorities,
            ..
        } = pool.take(host.clock.now())?;
        let certificates = watch::Sender::new(ClusterCertificates {
            root_ca: host.certificates.borrow().root_ca.clone(),
            client_ca: pki.authority.certificate.clone(),
            proxy_ca: pki.proxy_authority.certificate.clone(),
            authority: Some(Authority {
                certificate: pki.authority.certificate,
                key: pki.authority.key,
            }),
        });
        let issuer = Issuer::new(url, signing, Vec::new());
        let administrator = random_token();
        let tokens = TokenFile::parse(
            &format!("{administrator},{ADMINISTRATOR}"),
            issuer.audiences.clone(),
        );
        let credentials = Credentials {
            issuer: Arc::new(issuer),
            token_file: Some(tokens?),
            client_authorities,
            request_headers: None,
            request_header_info: RequestHeaderInfo::default(),
            proxy: pki.proxy,
            kubelet_client: None,
            certificates: certificates.subscribe(),
        };
        Ok(Self {
            credentials,
            administrator,
            certificates,
        })
    }
}

/// 244 random bits of the operating system's generator.
fn random_token() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_given_once_and_not_when_they_are_old() {
        let pool = KeyPool::default();
        let now = Timestamp::UNIX_EPOCH;
        let certificate = |keys: &GeneratedKeys| keys.pki.authority.certificate.clone();
        let generated = GeneratedKeys::generate(now).unwrap();
        let first = certificate(&generated);
        pool.ready.lock().push(generated);
        assert_eq!(certificate(&pool.take(now).unwrap()), first);
        assert_ne!(certificate(&pool.take(now).unwrap()), first);

        pool.ready.lock().push(GeneratedKeys::generate(now).unwrap());
        let later = now + MAX_AGE;
        assert_eq!(pool.take(later).unwrap().generated_at, later);
    }
}

//! The certificates of a running server. Every minute they are read again: those that are due are renewed, and those that
//! a command or a user replaced are used from then on. Open connections are not affected.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use setpoint_api::Clock;
use setpoint_apiserver::Aggregator;
use setpoint_apiserver::tls::DynamicTls;
use setpoint_auth::Issuer;
use setpoint_controllers::ClusterCertificates;
use setpoint_controllers::certificates::Authority;
use setpoint_kinds::bootstrap::PROXY_NAME;
use setpoint_pki::{CertKeyPair, CertificateInfo, DynamicFiles, Pki};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::access;
use super::client_authentication::ClientAuthentication;
use super::credentials::{self, Credentials};
use super::data_dir::DataDir;
use super::kubeconfig::{self, KubeconfigServer, WrittenKubeconfig};
use super::service_account_keys::ServiceAccountKeys;
use super::serving_files::ServingFiles;
use crate::args::{AggregationFlags, ControllerFlags, ServiceAccountFlags, Up};

/// How often files are read again (upstream: `FileRefreshDuration`).
const REFRESH_INTERVAL: Duration = Duration::from_secs(60);
/// How long before a certificate expires that the server does not renew itself its user is warned, once a day.
const WARNING: SignedDuration = SignedDuration::from_hours(30 * 24);
const WARNING_INTERVAL: SignedDuration = SignedDuration::from_hours(24);

/// All certificates of the server, and the files that they come from.
#[derive(Debug)]
pub(super) struct Certificates {
    dir: PathBuf,
    addresses: Vec<IpAddr>,
    clock: Arc<dyn Clock>,
    pki: Pki,
    serving: ServingFiles,
    /// The CAs of client certificates besides the cluster's own.
    clients: Arc<ClientAuthentication>,
    service_account_flags: ServiceAccountFlags,
    aggregation_flags: AggregationFlags,
    /// The CA of `--cluster-signing-cert-file`.
    signing: Option<SigningFiles>,
    tls: Arc<DynamicTls>,
    controllers: watch::Sender<ClusterCertificates>,
    warned: Option<Timestamp>,
}

#[derive(Debug)]
struct SigningFiles {
    files: DynamicFiles<Authority>,
    authority: Authority,
}

/// The components that get renewed certificates and keys.
#[derive(Debug)]
pub(super) struct CertificateUsers {
    pub(super) aggregator: Arc<Aggregator>,
    pub(super) issuer: Arc<Issuer>,
    pub(super) kubeconfig: WrittenKubeconfig,
}

// === impl Certificates ===

impl Certificates {
    /// Reads all certificates. Those that the server issues are created if they do not exist.
    pub(super) fn open(args: &Up, dir: &Path, clock: &Arc<dyn Clock>) -> Result<Self> {
        let aggregation_flags = args.aggregation_flags.clone();
        let pki = open_pki(
            dir,
            &args.certificate_addresses(),
            &aggregation_flags,
            clock.now(),
        )?;
        let clients = Arc::new(ClientAuthentication::open(&args.authentication_flags)?);
        let serving = ServingFiles::open(&args.tls_flags).context("cannot use the serving certificate")?;
        let signing = SigningFiles::of_flags(&args.controller_flags)?;
        let identity = clients.add_to_identity(serving.identity(&pki)?)?;
        let tls = match args.host_clusters {
            true => DynamicTls::for_hosted_clusters(identity)?,
            false => DynamicTls::new(identity)?,
        };
        let current = cluster_certificates(&pki, signing.as_ref(), &clients);
        let controllers = watch::Sender::new(current);
        Ok(Self {
            dir: dir.to_owned(),
            addresses: args.certificate_addresses(),
            clock: clock.clone(),
            pki,
            serving,
            clients,
            service_account_flags: args.service_account_flags.clone(),
            aggregation_flags,
            signing,
            tls,
            controllers,
            warned: None,
        })
    }

    /// The credentials of the cluster.
    pub(super) fn credentials(&self, args: &Up) -> Result<Credentials> {
        let issuer = access::open_issuer(&args.service_account_flags, &self.dir, self.clock.now())?;
        Ok(Credentials {
            token_file: access::read_tokens(args.token_auth_file.as_deref(), &issuer)?,
            issuer: Arc::new(issuer),
            client_authorities: self.tls.client_authorities(),
            request_headers: self.clients.request_headers()?,
            request_header_info: self.clients.request_header_info(),
            proxy: self.pki.proxy.clone(),
            kubelet_client: Some(self.pki.kubelet_client.clone()),
            certificates: self.controllers.subscribe(),
        })
    }

    /// The TLS configuration of the API server.
    pub(super) fn tls(&self) -> Arc<DynamicTls> {
        self.tls.clone()
    }

    /// How kubeconfigs name the server at this address.
    pub(super) fn kubeconfig_server(&self, address: SocketAddr) -> KubeconfigServer {
        KubeconfigServer {
            address,
            has_user_certificate: self.serving.replaces_default(),
        }
    }

    /// Writes the administrator's kubeconfig for the server at this address.
    pub(super) fn write_kubeconfig(
        &self,
        args: &Up,
        data_dir: &DataDir,
        address: SocketAddr,
    ) -> Result<WrittenKubeconfig> {
        kubeconfig::write(args, data_dir, &self.pki, self.kubeconfig_server(address))
    }

    /// Reads the files again and again until stopped.
    pub(super) async fn run(self, users: CertificateUsers, stop: CancellationToken) -> Result<()> {
        let (mut certificates, mut users) = (self, users);
        loop {
            certificates.warn_of_expiry();
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = certificates.clock.sleep(REFRESH_INTERVAL) => {}
            }
            let refreshed = tokio::task::spawn_blocking(move || {
                certificates.refresh(&mut users);
                (certificates, users)
            });
            (certificates, users) = refreshed.await?;
        }
    }

    /// Reads all files once and hands what has changed to its users. A file that cannot be read or used is logged, and the
    /// value that it had stays in use.
    fn refresh(&mut self, users: &mut CertificateUsers) {
        let before = self.pki.clone();
        report("cannot read or renew the certificates", self.reopen());
        let replaced = self.serving.poll();
        if let Some(signing) = &mut self.signing {
            report("the previous signing CA stays in use", signing.poll());
        }
        if replaced || self.pki != before {
            report("cannot serve the renewed certificate", self.replace_serving());
        }
        if self.pki.proxy != before.proxy {
            report(
                "cannot use the renewed front-proxy certificate",
                self.replace_proxy(users),
            );
        }
        let current = cluster_certificates(&self.pki, self.signing.as_ref(), &self.clients);
        self.controllers.send_if_modified(|published| {
            let changed = *published != current;
            *published = current;
            changed
        });
        report("cannot renew the kubeconfig", users.kubeconfig.renew(&self.pki));
        let keys = ServiceAccountKeys::new(&self.dir, &self.service_account_flags);
        let keys = keys.refresh(&users.issuer, self.clock.now());
        report("cannot read the keys of service account tokens", keys);
    }

    /// Reads the certificates that the server issues, and renews those that are due.
    fn reopen(&mut self) -> Result<()> {
        let pki = open_pki(
            &self.dir,
            &self.addresses,
            &self.aggregation_flags,
            self.clock.now(),
        )?;
        if pki.server != self.pki.server {
            tracing::info!("the serving certificate was renewed");
        }
        if pki.authority != self.pki.authority {
            tracing::info!(
                "the CA was rotated: ca.crt of kube-root-ca.crt and the kubeconfig have all trusted CAs"
            );
        }
        self.pki = pki;
        Ok(())
    }

    fn replace_serving(&self) -> Result<()> {
        let identity = self.clients.add_to_identity(self.serving.identity(&self.pki)?)?;
        Ok(self.tls.replace(identity)?)
    }

    fn replace_proxy(&self, users: &CertificateUsers) -> Result<()> {
        users
            .aggregator
            .replace_identity(credentials::proxy_client(&self.pki.proxy)?);
        Ok(())
    }

    /// Logs the certificates that expire soon and that the server does not renew: those of the user, and CAs.
    fn warn_of_expiry(&mut self) {
        let now = self.clock.now();
        if self.warned.is_some_and(|warned| now < warned + WARNING_INTERVAL) {
            return;
        }
        self.warned = Some(now);
        let authorities = [&self.pki.authority, &self.pki.proxy_authority];
        let authorities =
            authorities.map(|one| CertificateInfo::all_from_pem(one.signing.certificate.as_bytes()));
        let authorities = authorities.into_iter().flatten().flatten();
        let mut expiries = self.serving.expiries();
        expiries.extend(authorities.map(|info| (info.subject, info.not_after)));
        for (subject, not_after) in expiries.into_iter().filter(|(_, end)| *end < now + WARNING) {
            tracing::warn!(subject, %not_after, "a certificate expires soon");
        }
    }
}

// === impl SigningFiles ===

impl SigningFiles {
    fn of_flags(flags: &ControllerFlags) -> Result<Option<Self>> {
        match (&flags.cluster_signing_cert_file, &flags.cluster_signing_key_file) {
            (Some(certificate), Some(key)) => Self::open(certificate, key).map(Some),
            _ => Ok(None),
        }
    }

    fn open(certificate: &Path, key: &Path) -> Result<Self> {
        let text = |contents: &[Vec<u8>], at: usize| String::from_utf8_lossy(&contents[at]).into_owned();
        let parse = move |contents: &[Vec<u8>]| {
            let pair = CertKeyPair {
                certificate: text(contents, 0),
                key: text(contents, 1),
            };
            match pair.is_matching() {
                true => Ok(authority(&pair)),
                false => Err("the private key does not belong to the certificate".to_owned()),
            }
        };
        let (files, authority) = DynamicFiles::open(vec![certificate.to_owned(), key.to_owned()], parse)?;
        Ok(Self { files, authority })
    }

    fn poll(&mut self) -> Result<()> {
        if let Some(authority) = self.files.poll()? {
            self.authority = authority;
        }
        Ok(())
    }
}

/// The certificates that the server issues. The client certificate for aggregated API servers may be the user's.
fn open_pki(dir: &Path, addresses: &[IpAddr], flags: &AggregationFlags, now: Timestamp) -> Result<Pki> {
    let mut pki = Pki::open(dir, addresses, PROXY_NAME, now)?;
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    if let (Some(certificate), Some(key)) = (&flags.proxy_client_cert_file, &flags.proxy_client_key_file) {
        pki.proxy = CertKeyPair {
            certificate: read(certificate)?,
            key: read(key)?,
        };
    }
    Ok(pki)
}

/// The certificates that controllers use. CertificateSigningRequests are signed by the CA of
/// `--cluster-signing-cert-file`, or else by the cluster's own.
fn cluster_certificates(
    pki: &Pki,
    signing: Option<&SigningFiles>,
    clients: &ClientAuthentication,
) -> ClusterCertificates {
    let own = || authority(&pki.authority.signing);
    ClusterCertificates {
        root_ca: pki.authority.bundle.clone(),
        client_ca: clients.client_bundle(&pki.authority.bundle),
        proxy_ca: clients.proxy_bundle(&pki.proxy_authority.bundle),
        authority: Some(signing.map_or_else(own, |signing| signing.authority.clone())),
    }
}

fn authority(pair: &CertKeyPair) -> Authority {
    Authority {
        certificate: pair.certificate.clone(),
        key: pair.key.clone(),
    }
}

/// The CA of `--cluster-signing-cert-file`; `None` without that flag.
pub(crate) fn read_signing_authority(flags: &ControllerFlags) -> Result<Option<Authority>> {
    let files = SigningFiles::of_flags(flags)?;
    Ok(files.map(|files| files.authority))
}

fn report(problem: &str, outcome: Result<()>) {
    if let Err(error) = outcome {
        tracing::warn!(error = format!("{error:#}"), "{problem}");
    }
}

#[cfg(test)]
mod tests;

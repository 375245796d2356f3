//! `setpoint join`: the node agent with an identity that it gets by a bootstrap token.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use setpoint_api::{Clock, SystemClock};
use setpoint_client::Client;
use setpoint_client::kubeconfig::{Connection, Identity};
use setpoint_node::bootstrap::{NodeCertificate, discover};
use setpoint_node::{Config, HostConfig, RuntimeConfig};

use crate::args::{Join, LogFormat};
use crate::nodes;

/// The files of a node's identity, below its directory.
const CERTIFICATE: &str = "pki/kubelet-client-current.pem";
const AUTHORITY: &str = "pki/ca.crt";

/// How long after a failed renewal the next one is tried.
const RENEWAL_RETRY: Duration = Duration::from_secs(60);

/// A node of a cluster.
struct Member<'a> {
    args: &'a Join,
    name: String,
    /// The CA bundle of the cluster, PEM.
    authority: Vec<u8>,
    clock: SystemClock,
}

/// Joins the cluster, and runs the node until interrupted.
pub(crate) fn run(args: &Join) -> Result<()> {
    crate::log::start(LogFormat::Text, false);
    crate::serve::runtime()?.block_on(join(args))
}

async fn join(args: &Join) -> Result<()> {
    let choice = nodes::choose(&args.agent_flags.node_flags, 1, "node", false)?;
    let config = choice.config.context("there is no node to run")?;
    let config = as_node(config);
    let machine = config.machines.first().context("there is no node to run")?;
    let member = Member {
        args,
        name: machine.name.to_string(),
        authority: authority(args).await?,
        clock: SystemClock::new(),
    };
    let mut certificate = member.certificate().await?;
    println!(
        "setpoint {} has joined {} as {}",
        env!("CARGO_PKG_VERSION"),
        args.server,
        member.name
    );
    println!("  node        {}", choice.description);
    loop {
        let connection = member.connection(certificate.identity());
        let renewed = member.renewed(&certificate);
        let ended = nodes::run_agent(config.clone(), &args.agent_flags, &connection, renewed).await?;
        match ended {
            // The agent goes on with its new identity; its containers do not notice.
            Some(renewed) => certificate = renewed?,
            None => return Ok(()),
        }
    }
}

/// The same node with the permissions of a node, which do not include volumes.
fn as_node(config: Config) -> Config {
    let runtime = match config.runtime {
        RuntimeConfig::Containers(host) => RuntimeConfig::Containers(HostConfig {
            provisions_volumes: false,
            ..host
        }),
        simulated @ RuntimeConfig::Simulated(_) => simulated,
    };
    Config { runtime, ..config }
}

/// The CA bundle of the cluster: of the file, by its hash, or that of a previous join.
async fn authority(args: &Join) -> Result<Vec<u8>> {
    let stored = path(args, AUTHORITY);
    let read = |path: &Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let found = match (&args.certificate_authority, &args.discovery_token_ca_cert_hash) {
        (Some(path), _) => read(path)?,
        (None, Some(hash)) => discover(&args.server, hash).await?,
        (None, None) if stored.exists() => return read(&stored),
        (None, None) => {
            bail!(
                "set --discovery-token-ca-cert-hash or --certificate-authority: the cluster cannot be recognized without"
            )
        }
    };
    let directory = stored.parent().context("the file of the CA is in a directory")?;
    std::fs::create_dir_all(directory)?;
    std::fs::write(&stored, &found).with_context(|| format!("cannot write {}", stored.display()))?;
    Ok(found)
}

fn path(args: &Join, file: &str) -> PathBuf {
    args.agent_flags.node_flags.node_dir.join(file)
}

impl Member<'_> {
    fn connection(&self, identity: Identity) -> Connection {
        Connection {
            server: self.args.server.clone(),
            authority: Some(self.authority.clone()),
            identity,
            ..Connection::default()
        }
    }

    /// The certificate of a previous join, or else a new one by the token.
    async fn certificate(&self) -> Result<NodeCertificate> {
        let stored = NodeCertificate::load(&path(self.args, CERTIFICATE));
        let stored = stored.context("cannot read the certificate of the node")?;
        if let Some(stored) = stored.filter(|stored| stored.is_valid_for(&self.name, self.clock.now())) {
            return Ok(stored);
        }
        let Some(token) = &self.args.token else {
            bail!(
                "set --token: this machine has no valid certificate of the node {}",
                self.name
            );
        };
        self.request(Identity::Token(token.clone())).await
    }

    /// Requests a certificate as this user, and stores it.
    async fn request(&self, identity: Identity) -> Result<NodeCertificate> {
        let client = Client::connect(&self.connection(identity))?;
        let certificate = NodeCertificate::request(&client, &self.name, &self.clock).await?;
        certificate.store(&path(self.args, CERTIFICATE))?;
        Ok(certificate)
    }

    /// The next certificate, when it is time.
    async fn renewed(&self, certificate: &NodeCertificate) -> Result<NodeCertificate> {
        let wait = certificate.renewal()?.duration_since(self.clock.now());
        self.clock.sleep(wait.try_into().unwrap_or_default()).await;
        loop {
            match self.request(certificate.identity()).await {
                Ok(renewed) => return Ok(renewed),
                Err(error) => tracing::warn!(
                    error = format!("{error:#}"),
                    "cannot renew the node's certificate"
                ),
            }
            self.clock.sleep(RENEWAL_RETRY).await;
        }
    }
}

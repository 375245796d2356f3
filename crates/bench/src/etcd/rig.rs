//! The processes of the comparison: one etcd, and the servers that store their objects in it.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::{
    api::{
        Setting,
        server::{Server, new_dir},
    },
    args::EtcdArgs,
    processes,
};

/// A server under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    KubeApiserver,
    Setpoint,
}

/// The programs, the files of the servers and a running etcd.
#[derive(Debug)]
pub(super) struct Rig {
    dir: TempDir,
    setpoint: PathBuf,
    kube_apiserver: PathBuf,
    url: String,
    /// Killed when this is dropped.
    etcd: Process,
}

/// A child that does not outlive its handle.
#[derive(Debug)]
struct Process(Child);

/// How long etcd may take to listen.
const ETCD_START_LIMIT: Duration = Duration::from_secs(60);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

const SERVICE_CIDR: &str = "10.0.0.0/24";

impl Subject {
    pub(super) const BOTH: [Subject; 2] = [Subject::KubeApiserver, Subject::Setpoint];

    pub(super) fn name(self) -> &'static str {
        match self {
            Subject::KubeApiserver => "kube-apiserver",
            Subject::Setpoint => "setpoint",
        }
    }
}

impl Rig {
    /// Makes the certificates of etcd and starts it, without data.
    pub(super) async fn start(setting: &Setting, args: &EtcdArgs) -> Result<Self> {
        let dir = new_dir(setting)?;
        write_certificates(dir.path())?;
        let (url, peer) = (
            format!("https://127.0.0.1:{}", free_port()?),
            format!("http://127.0.0.1:{}", free_port()?),
        );
        let path = |name: &str| dir.path().join(name).display().to_string();
        let mut command = Command::new(&args.etcd);
        command
            .arg(format!("--data-dir={}", path("etcd")))
            .arg(format!("--listen-client-urls={url}"))
            .arg(format!("--advertise-client-urls={url}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=default={peer}"))
            .arg(format!("--cert-file={}", path("etcd.crt")))
            .arg(format!("--key-file={}", path("etcd.key")))
            .arg(format!("--trusted-ca-file={}", path("etcd-ca.crt")))
            .arg("--client-cert-auth");
        let mut etcd = Process::start(command, &dir.path().join("etcd.log"))?;
        etcd.wait_until_listening(&url).await?;
        Ok(Self {
            setpoint: setting.setpoint.clone(),
            kube_apiserver: args.kube_apiserver.clone(),
            dir,
            url,
            etcd,
        })
    }

    /// CPU time of etcd so far.
    pub(super) fn etcd_cpu_time(&self) -> Result<Duration> {
        processes::cpu_time(self.etcd.0.id())
    }

    /// Starts a server. Setpoint has to be the first one: it makes the certificates of both.
    pub(super) async fn start_server(&self, subject: Subject) -> Result<Server> {
        let started = match subject {
            Subject::Setpoint => self.start_setpoint().await,
            Subject::KubeApiserver => self.start_kube_apiserver().await,
        };
        started.with_context(|| format!("starting {}", subject.name()))
    }

    async fn start_setpoint(&self) -> Result<Server> {
        let kubeconfig = self.path("kubeconfig");
        let mut command = Command::new(&self.setpoint);
        command
            .args([
                "up",
                "--listen=127.0.0.1:0",
                "--quiet",
                "--nodes=0",
                "--controllers=none",
            ])
            .arg("--advertise-address=192.0.2.1")
            .arg(format!("--service-cluster-ip-range={SERVICE_CIDR}"))
            .arg(format!("--data-dir={}", self.path("data").display()))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(self.etcd_flags());
        Server::start(command, &kubeconfig).await
    }

    async fn start_kube_apiserver(&self) -> Result<Server> {
        let port = free_port()?;
        let kubeconfig = self.path("kube-apiserver-kubeconfig");
        fs::write(&kubeconfig, self.kubeconfig_for(port)?)?;
        let pki = |name: &str| self.path("data/pki").join(name).display().to_string();
        let log = File::create(self.path("kube-apiserver.log"))?;
        let mut command = Command::new(&self.kube_apiserver);
        command
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={port}"))
            .arg("--advertise-address=192.0.2.2")
            .arg(format!("--cert-dir={}", self.path("kube-apiserver").display()))
            .arg(format!("--client-ca-file={}", pki("ca.crt")))
            .arg(format!("--tls-cert-file={}", pki("server.crt")))
            .arg(format!("--tls-private-key-file={}", pki("server.key")))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg(format!(
                "--service-account-key-file={}",
                self.path("sa.pub").display()
            ))
            .arg(format!(
                "--service-account-signing-key-file={}",
                self.path("sa.key").display()
            ))
            .arg("--authorization-mode=Node,RBAC")
            .arg(format!("--service-cluster-ip-range={SERVICE_CIDR}"))
            .args(self.etcd_flags())
            .stderr(log);
        Server::start_with(command, &kubeconfig).await
    }

    /// The flags for etcd, which are the same for both servers.
    fn etcd_flags(&self) -> [String; 4] {
        [
            format!("--etcd-servers={}", self.url),
            format!("--etcd-cafile={}", self.path("etcd-ca.crt").display()),
            format!("--etcd-certfile={}", self.path("etcd.crt").display()),
            format!("--etcd-keyfile={}", self.path("etcd.key").display()),
        ]
    }

    /// Setpoint's kubeconfig with another port: both servers have the same CA.
    fn kubeconfig_for(&self, port: u16) -> Result<String> {
        let path = self.path("kubeconfig");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let changed = text.lines().map(|line| match line.split_once("server: ") {
            Some((indent, _)) => format!("{indent}server: https://127.0.0.1:{port}\n"),
            None => format!("{line}\n"),
        });
        Ok(changed.collect())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Process {
    fn start(mut command: Command, log: &Path) -> Result<Self> {
        let log = File::create(log)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        Ok(Self(child))
    }

    async fn wait_until_listening(&mut self, url: &str) -> Result<()> {
        let address = url.trim_start_matches("https://");
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            let exited = self.0.try_wait()?;
            ensure!(exited.is_none(), "etcd exited before it listened: {exited:?}");
            ensure!(start.elapsed() < ETCD_START_LIMIT, "etcd does not listen");
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }
}

impl Drop for Process {
    /// Errors are ignored: the child has exited already.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A CA for etcd with one certificate for it and its clients, and a key of ServiceAccount tokens for kube-apiserver.
fn write_certificates(dir: &Path) -> Result<()> {
    let write = |name: &str, text: String| fs::write(dir.join(name), text);
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority
        .distinguished_name
        .push(DnType::CommonName, "etcd CA of the benchmark");
    write("etcd-ca.crt", authority.self_signed(&authority_key)?.pem())?;
    let mut member = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
    member.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let key = KeyPair::generate()?;
    let certificate = member.signed_by(&key, &Issuer::new(authority, authority_key))?;
    write("etcd.crt", certificate.pem())?;
    write("etcd.key", key.serialize_pem())?;
    let tokens = KeyPair::generate()?;
    write("sa.key", tokens.serialize_pem())?;
    write("sa.pub", tokens.public_key_pem())?;
    Ok(())
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

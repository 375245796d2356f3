//! The HTTP transport of the scheduler's extenders.

use std::sync::Arc;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use setpoint_client::Http;
use setpoint_client::kubeconfig::{Connection, Identity};
use setpoint_scheduler::extender::{ExtenderConfig, ExtenderTlsConfig, ExtenderTransport};
use setpoint_scheduler::framework::BoxFuture;

/// An extender over HTTP or HTTPS.
#[derive(Debug)]
struct HttpTransport {
    http: Http,
    url: String,
}

/// The transport of an extender.
pub(crate) fn connect(config: &ExtenderConfig) -> Result<Arc<dyn ExtenderTransport>> {
    let transport = connection(config).and_then(|connection| {
        Ok(HttpTransport {
            http: Http::new(&connection)?,
            url: connection.server,
        })
    });
    let transport = transport.with_context(|| format!("extender {:?}", config.url_prefix))?;
    Ok(Arc::new(transport))
}

/// The address and the TLS settings. As upstream, HTTPS without a CA does not verify the server.
fn connection(config: &ExtenderConfig) -> Result<Connection> {
    let tls = config.tls_config.clone().unwrap_or_default();
    let authority = read(&tls.ca_data, &tls.ca_file)?;
    let certificate = read(&tls.cert_data, &tls.cert_file)?;
    let key = read(&tls.key_data, &tls.key_file)?;
    Ok(Connection {
        server: config.url_prefix.trim_end_matches('/').to_owned(),
        insecure_skip_tls_verify: is_insecure(config, &tls, authority.is_some()),
        authority,
        server_name: (!tls.server_name.is_empty()).then_some(tls.server_name),
        identity: match (certificate, key) {
            (Some(chain), Some(key)) => Identity::Certificate { chain, key },
            _ => Identity::Anonymous,
        },
        ..Connection::default()
    })
}

fn is_insecure(config: &ExtenderConfig, tls: &ExtenderTlsConfig, has_authority: bool) -> bool {
    tls.insecure || (config.enable_https && !has_authority)
}

/// The decoded data, or the content of the file; `None` if neither is set.
fn read(data: &str, file: &str) -> Result<Option<Vec<u8>>> {
    match (data, file) {
        ("", "") => Ok(None),
        ("", file) => Ok(Some(std::fs::read(file).with_context(|| file.to_owned())?)),
        (data, _) => Ok(Some(STANDARD.decode(data)?)),
    }
}

impl ExtenderTransport for HttpTransport {
    fn post<'a>(&'a self, verb: &'a str, body: String) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            let response = self.http.post(&format!("/{verb}"), body).await;
            let bytes = response.map_err(|status| {
                let url = &self.url;
                format!(
                    "failed {verb} with extender at URL {url}/{verb}, code {}: {status}",
                    status.code
                )
            })?;
            Ok(bytes.to_vec())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use setpoint_api::SystemClock;
    use setpoint_runtime::webhook::{Certificate, Webhooks};
    use tempfile::TempDir;
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// An extender over TLS that requires a client certificate, and the files with its CA and that certificate.
    struct TlsExtender {
        port: u16,
        files: TempDir,
        _running: JoinSet<()>,
    }

    impl TlsExtender {
        async fn start() -> Self {
            let files = tempfile::tempdir().unwrap();
            write_certificates(files.path());
            let path = |name: &str| files.path().join(name);
            let certificate = Certificate::files(path("server.crt"), path("server.key"))
                .with_client_authorities(vec![path("ca.crt")]);
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let server =
                Webhooks::new().responds("/extender/filter", |body| async move { Ok(body.to_vec()) });
            let (clock, stop) = (Arc::new(SystemClock::new()), CancellationToken::new());
            let mut running = JoinSet::new();
            running.spawn(async move { server.run(listener, certificate, clock, stop).await.unwrap() });
            Self {
                port,
                files,
                _running: running,
            }
        }

        fn config(&self, change: impl FnOnce(&mut ExtenderTlsConfig)) -> ExtenderConfig {
            let file = |name: &str| self.files.path().join(name).to_str().unwrap().to_owned();
            let mut tls = ExtenderTlsConfig {
                server_name: "extender.example.com".to_owned(),
                ca_file: file("ca.crt"),
                cert_file: file("client.crt"),
                key_file: file("client.key"),
                ..ExtenderTlsConfig::default()
            };
            change(&mut tls);
            ExtenderConfig {
                url_prefix: format!("https://127.0.0.1:{}/extender", self.port),
                enable_https: true,
                tls_config: Some(tls),
                ..ExtenderConfig::default()
            }
        }

        async fn post(&self, change: impl FnOnce(&mut ExtenderTlsConfig)) -> Result<Vec<u8>, String> {
            let transport = connect(&self.config(change)).unwrap();
            transport.post("filter", "{}".to_owned()).await
        }
    }

    /// A CA, and a certificate of a server and of a client that it signs.
    fn write_certificates(directory: &Path) {
        let write = |name: &str, text: String| std::fs::write(directory.join(name), text).unwrap();
        let authority_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        write("ca.crt", params.self_signed(&authority_key).unwrap().pem());
        let issuer = Issuer::new(params, authority_key);
        for (file, name) in [("server", "extender.example.com"), ("client", "scheduler")] {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new([name.to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            write(&format!("{file}.crt"), certificate.pem());
            write(&format!("{file}.key"), key.serialize_pem());
        }
    }

    #[tokio::test]
    async fn an_extender_is_verified_and_verifies_the_scheduler() {
        let extender = TlsExtender::start().await;
        assert_eq!(extender.post(|_| {}).await.unwrap(), b"{}");
        let authority = std::fs::read(extender.files.path().join("ca.crt")).unwrap();
        let by_data = extender.post(|tls| {
            tls.ca_data = STANDARD.encode(&authority);
            tls.ca_file = "missing".to_owned();
        });
        assert_eq!(by_data.await.unwrap(), b"{}");
        let insecure = extender.post(|tls| {
            tls.ca_file = String::new();
            tls.server_name = String::new();
            tls.insecure = true;
        });
        assert_eq!(insecure.await.unwrap(), b"{}");
    }

    #[tokio::test]
    async fn an_extender_of_another_name_or_a_scheduler_without_a_certificate_is_rejected() {
        let extender = TlsExtender::start().await;
        let other = extender.post(|tls| tls.server_name = "other.example.com".to_owned());
        let error = other.await.unwrap_err();
        assert!(error.contains("certificate"), "{error}");
        let anonymous = extender.post(|tls| tls.cert_file = String::new());
        let error = anonymous.await.unwrap_err();
        assert!(error.contains("failed filter with extender at URL"), "{error}");
    }
}

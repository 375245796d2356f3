//! TLS of probes and lifecycle hooks. Certificates are not verified: pods have no names that a certificate could prove.

use std::io;
use std::sync::Arc;

use rustls::{ClientConfig, InvalidMessage};
use rustls_pki_types::ServerName;
use setpoint_client::http::tls::client_config;
use setpoint_client::kubeconfig::Connection;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Performs the handshake on a new connection. `Err` is Go's text where it has one.
pub(super) async fn connect(stream: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(Arc::new(config()?));
    let connected = connector.connect(name, stream).await;
    connected.map_err(|error| handshake_error(&error))
}

fn config() -> Result<ClientConfig, String> {
    let anyone = Connection {
        insecure_skip_tls_verify: true,
        ..Connection::default()
    };
    let mut config = client_config(&anyone).map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn handshake_error(error: &io::Error) -> String {
    let source = error.get_ref().and_then(|source| source.downcast_ref());
    match source {
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        _ => error.to_string(),
    }
}

//! Checks of servers on the loopback interface.

use std::net::{Ipv4Addr, SocketAddr};

use setpoint_api::SystemClock;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::server::ServerTls;

/// How a server talks to its only client.
#[derive(Clone, Copy)]
enum Transport {
    Plain,
    Tls,
}

async fn respond(mut stream: impl AsyncRead + AsyncWrite + Unpin, response: &str) {
    let mut request = [0; 1024];
    let _ = stream.read(&mut request).await;
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Serves one connection with this response.
async fn serve(listener: TcpListener, transport: Transport, response: &str) {
    let (stream, _) = listener.accept().await.unwrap();
    match transport {
        Transport::Plain => respond(stream, response).await,
        Transport::Tls => {
            let tls = ServerTls::self_signed("other", &[], SystemClock::new().now()).unwrap();
            let acceptor = TlsAcceptor::from(tls.config().unwrap());
            if let Ok(stream) = acceptor.accept(stream).await {
                respond(stream, response).await;
            }
        }
    }
}

/// The outcome of a probe by this scheme of a server that responds so.
async fn probe(scheme: &str, transport: Transport, response: &str) -> (SocketAddr, Result<u16, String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let action = HTTPGetAction {
        port: IntOrString::Int(address.port().into()),
        scheme: Some(scheme.to_owned()),
        ..HTTPGetAction::default()
    };
    let endpoint = Endpoint {
        container: ContainerId("c".to_owned()),
        address: Some(address.ip()),
        ports: Vec::new(),
    };
    let timeout = Duration::from_secs(10);
    let clock = SystemClock::new();
    let (got, ()) = tokio::join!(
        http_get(&clock, &action, &endpoint, timeout),
        serve(listener, transport, response)
    );
    (address, got.map(|(status, _)| status))
}

#[tokio::test]
async fn the_certificate_of_a_probed_container_is_not_verified() {
    let (_, status) = probe("HTTPS", Transport::Tls, "HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!(status, Ok(204));
}

#[tokio::test]
async fn a_container_that_speaks_no_tls_fails_an_https_probe() {
    let (address, status) = probe("HTTPS", Transport::Plain, "HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let expected = format!("Get \"https://{address}/\": http: server gave HTTP response to HTTPS client");
    assert_eq!(status, Err(expected));
}

#[tokio::test]
async fn a_container_is_probed_over_plain_http_by_default() {
    let (_, status) = probe("HTTP", Transport::Plain, "HTTP/1.1 200 OK\r\n\r\n").await;
    assert_eq!(status, Ok(200));
}

#[test]
fn of_the_output_of_a_command_only_the_start_is_reported() {
    let outcome = exec_outcome(ExecOutput {
        exit_code: 1,
        stdout: vec![b'x'; 1 << 20],
        stderr: b"why".to_vec(),
    });
    assert_eq!(
        (outcome.succeeded, outcome.output.len()),
        (false, MAX_OUTPUT_BYTES)
    );
}

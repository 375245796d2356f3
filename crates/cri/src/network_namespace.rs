//! Connections made inside the network namespace of a sandbox.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A connection to a port of the loopback interface in the network namespace that the path names; of the host for
/// `None`. A namespace belongs to a thread, so the connection is made by a thread of its own, which ends right after.
pub(crate) async fn connect(namespace: Option<&Path>, port: u16) -> io::Result<TcpStream> {
    let namespace = namespace.map(File::open).transpose()?;
    let connected = tokio::task::spawn_blocking(move || {
        std::thread::scope(|scope| {
            let addresses = [
                (Ipv4Addr::LOCALHOST, port).into(),
                (Ipv6Addr::LOCALHOST, port).into(),
            ];
            let thread = scope.spawn(move || connect_inside(namespace, addresses, CONNECT_TIMEOUT));
            thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
        })
    });
    connected.await.map_err(io::Error::other)?
}

/// Neither the thread nor the client waits longer for a program that does not accept its connections.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

fn connect_inside(
    namespace: Option<File>,
    addresses: [SocketAddr; 2],
    timeout: Duration,
) -> io::Result<TcpStream> {
    if let Some(namespace) = namespace {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    }
    let [first, second] = addresses;
    TcpStream::connect_timeout(&first, timeout)
        .or_else(|error| TcpStream::connect_timeout(&second, timeout).map_err(|_| error))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_program_that_accepts_no_connections_ends_the_attempt() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        // The kernel drops further attempts once as many connections wait as the listener allows.
        let attempt = || connect_inside(None, [address; 2], Duration::from_millis(50));
        let error = std::iter::repeat_with(attempt)
            .scan(Vec::new(), |waiting, attempt| {
                Some(attempt.map(|stream| waiting.push(stream)).err())
            })
            .take(16)
            .find_map(|error| error);
        assert_eq!(error.map(|error| error.kind()), Some(io::ErrorKind::TimedOut));
    }
}

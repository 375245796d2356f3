//! Connections made inside the network namespace of a sandbox.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A connection to a port of the loopback interface in the network namespace that the path names; of the host for
/// `None`. A namespace belongs to a thread, so the connection is made by a thread of its own, which ends right after.
pub(crate) async fn connect(namespace: Option<&Path>, port: u16) -> io::Result<TcpStream> {
    let namespace = namespace.map(File::open).transpose()?;
    let connected = tokio::task::spawn_blocking(move || {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| connect_inside(namespace, port));
            thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
        })
    });
    connected.await.map_err(io::Error::other)?
}

fn connect_inside(namespace: Option<File>, port: u16) -> io::Result<TcpStream> {
    if let Some(namespace) = namespace {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    }
    TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .or_else(|error| TcpStream::connect((Ipv6Addr::LOCALHOST, port)).map_err(|_| error))
}

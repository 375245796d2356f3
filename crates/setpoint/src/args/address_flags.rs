//! Flags for the server's addresses, with kube-apiserver's names. `--listen` is the short form.

use std::net::{IpAddr, SocketAddr};

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct AddressFlags {
    /// The IP address on which to serve; the address of --listen.
    #[arg(long, value_name = "ADDR", conflicts_with = "listen")]
    pub bind_address: Option<IpAddr>,
    /// The port on which to serve HTTPS; the port of --listen.
    #[arg(long, value_name = "PORT", conflicts_with = "listen")]
    pub secure_port: Option<u16>,
    /// The IP address on which to advertise the server to members of the cluster, in the endpoints of the `kubernetes`
    /// Service [default: the address on which it serves].
    #[arg(long, value_name = "ADDR")]
    pub advertise_address: Option<IpAddr>,
}

impl AddressFlags {
    /// The address to serve on: that of `--listen` with the address and the port that are set here.
    pub(crate) fn listen(&self, listen: SocketAddr) -> SocketAddr {
        SocketAddr::new(
            self.bind_address.unwrap_or(listen.ip()),
            self.secure_port.unwrap_or(listen.port()),
        )
    }

    /// The address that the serving certificate has: the one to serve on, or if that is unspecified, the advertised one.
    pub(crate) fn certificate_address(&self, listen: SocketAddr) -> IpAddr {
        let serves_on = self.listen(listen).ip();
        match self.advertise_address {
            Some(advertised) if serves_on.is_unspecified() => advertised,
            _ => serves_on,
        }
    }
}

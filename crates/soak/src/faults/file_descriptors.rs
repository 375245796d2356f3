//! The server may open 256 files, and idle connections take all of them.

use std::net::TcpStream;

use anyhow::Result;
use rand::rngs::StdRng;
use setpoint_conformance::time::sleep;

use super::{Injection, restart};
use crate::process::StartOptions;
use crate::soak::Soak;

const CONNECTIONS: usize = 400;

pub(super) fn inject(soak: &Soak<'_>, _: &mut StdRng) -> Result<Injection> {
    let options = StartOptions {
        file_limit: true,
        ..StartOptions::default()
    };
    restart(soak, &options)?;
    soak.set_up(false);
    let connections: Vec<TcpStream> = (0..CONNECTIONS)
        .map_while(|_| TcpStream::connect(soak.endpoint.host()).ok())
        .collect();
    sleep(soak.args.fault_duration());
    drop(connections);
    let recovery = super::wait_until_ready(soak)?;
    restart(soak, &StartOptions::default())?;
    Ok(Injection::Recovered(recovery))
}

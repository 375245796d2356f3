//! Clients that stop reading, stop sending, or send a byte at a time. Other users must not notice.

use anyhow::Result;
use rand::rngs::StdRng;
use setpoint_conformance::time::{now, sleep};
use setpoint_conformance::wire::{Connection, Request};

use super::{Injection, POLL, wait_until_ready};
use crate::objects::COLLECTION;
use crate::soak::{ADMIN, ALICE, Soak};

const WATCHES: usize = 40;
const DRIPS: usize = 40;
const HALF_REQUESTS: usize = 40;
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

pub(super) fn inject(soak: &Soak<'_>, _: &mut StdRng) -> Result<Injection> {
    let watch = format!("{COLLECTION}&watch=true");
    let _watches = open(soak, ADMIN, WATCHES, |connection| {
        connection.to_bytes(&Request::new("GET", &watch))
    });
    let _half = open(soak, ALICE, HALF_REQUESTS, |_| {
        b"GET /api HTTP/1.1\r\nHost".to_vec()
    });
    let mut drips = open(soak, ALICE, DRIPS, |connection| {
        let request =
            connection.to_bytes(&Request::new("POST", REVIEWS).body("application/json", vec![b'{'; 1000]));
        request[..request.len() - 999].to_vec()
    });
    let started = now();
    while started.elapsed() < soak.args.fault_duration() {
        // The server may close such a connection at any time.
        drips.retain_mut(|connection| connection.send(b" ").is_ok());
        sleep(POLL);
    }
    Ok(Injection::Recovered(wait_until_ready(soak)?))
}

/// Connections that have sent these bytes and do nothing further. Those that cannot be opened are left out.
fn open(
    soak: &Soak<'_>,
    token: &str,
    number: usize,
    bytes: impl Fn(&Connection) -> Vec<u8>,
) -> Vec<Connection> {
    let connect = |_| {
        let mut connection = soak.session(token).connect().ok()?;
        let bytes = bytes(&connection);
        connection.send(&bytes).ok()?;
        Some(connection)
    };
    (0..number).filter_map(connect).collect()
}

//! The process is stopped for a while and continued, as when a virtual machine is moved.

use anyhow::Result;
use rand::rngs::StdRng;
use rustix::process::Signal;
use setpoint_conformance::time::sleep;

use super::{Injection, wait_until_ready};
use crate::soak::Soak;

pub(super) fn inject(soak: &Soak<'_>, _: &mut StdRng) -> Result<Injection> {
    soak.set_up(false);
    soak.process.lock().signal(Signal::STOP)?;
    sleep(soak.args.fault_duration());
    soak.process.lock().signal(Signal::CONT)?;
    let recovery = wait_until_ready(soak)?;
    soak.set_up(true);
    Ok(Injection::Recovered(recovery))
}

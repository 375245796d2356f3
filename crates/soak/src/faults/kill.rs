//! The process is killed, as by a crash of the machine's memory, and started again.

use anyhow::Result;
use rand::rngs::StdRng;

use super::{Injection, restart};
use crate::process::StartOptions;
use crate::soak::Soak;

pub(super) fn inject(soak: &Soak<'_>, _: &mut StdRng) -> Result<Injection> {
    Ok(Injection::Recovered(restart(soak, &StartOptions::default())?))
}

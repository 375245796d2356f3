//! The engine that keeps nothing: for tests, forks and simulations.

use std::path::PathBuf;

use crate::{Error, Millis, Revision, batch::Batch, log::Log};

/// A log without a medium.
#[derive(Debug)]
pub(crate) struct MemoryLog;

impl Log for MemoryLog {
    fn append(&mut self, _: &mut Batch, _: Revision) -> Result<(), Error> {
        Ok(())
    }

    fn compact(&mut self, _: Revision, _: Revision, _: Millis) -> Result<(), Error> {
        Ok(())
    }

    fn release(&mut self, _: Revision) -> Vec<PathBuf> {
        Vec::new()
    }

    fn bytes(&self) -> u64 {
        0
    }
}

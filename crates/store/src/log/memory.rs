//! The engine that keeps nothing: for tests, forks and simulations.

use std::path::PathBuf;

use crate::{
    Error, Revision,
    batch::{Batch, Draft},
    log::Log,
};

/// A log without a medium.
#[derive(Debug)]
pub(crate) struct MemoryLog;

impl Log for MemoryLog {
    fn commit(&mut self, batch: &mut Batch) -> Result<(), Error> {
        batch.decide();
        Ok(())
    }

    fn compact(&mut self, _: Revision, _: &Draft) -> Result<(), Error> {
        Ok(())
    }

    fn release(&mut self, _: Revision) -> Vec<PathBuf> {
        Vec::new()
    }

    fn bytes(&self) -> u64 {
        0
    }
}

//! The engine without storage: for tests, forks and simulations.

use std::path::PathBuf;

use crate::{
    Error, Millis, Revision,
    log::{Log, WriteBatch},
};

/// A log that stores nothing.
#[derive(Debug)]
pub(crate) struct MemoryLog;

impl Log for MemoryLog {
    fn append(&mut self, _: &mut WriteBatch) -> Result<(), Error> {
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

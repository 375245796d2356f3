//! The load: threads that run until the control stops them.

pub(crate) mod controller;
pub(crate) mod memory;
pub(crate) mod reader;
pub(crate) mod watcher;
pub(crate) mod writer;

//! Resident memory of a process.

use std::fs;

/// An amount of memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Memory(pub u64);

impl Memory {
    /// The resident memory of a process, if the system reports it.
    pub fn of(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(Self(kilobytes << 10))
    }

    pub fn megabytes(self) -> u64 {
        self.0 >> 20
    }
}

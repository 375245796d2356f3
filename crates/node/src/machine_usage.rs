//! [`MachineUsage`]: what this machine uses, its pods and everything else.

use crate::eviction;

/// What this machine uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineUsage {
    /// The CPU time of all processors since the machine was started.
    pub cpu_nanoseconds: u64,
    /// The memory that the kernel cannot free at once.
    pub working_set_bytes: u64,
}

impl MachineUsage {
    /// Reads the kernel's files; `None` if one of them is missing.
    pub(crate) fn read() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        Some(Self {
            cpu_nanoseconds: cpu_time(&stat, rustix::param::clock_ticks_per_second())?,
            working_set_bytes: eviction::working_set()?,
        })
    }
}

/// The time in which processors were busy, by `/proc/stat`: not idle, not waiting, and not running another machine.
fn cpu_time(stat: &str, ticks_per_second: u64) -> Option<u64> {
    let mut words = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let mut next = || words.next()?.parse::<u64>().ok();
    let (user, nice, system) = (next()?, next()?, next()?);
    let (_idle, _waiting) = (next()?, next()?);
    let (interrupts, soft_interrupts) = (next()?, next()?);
    let ticks = user + nice + system + interrupts + soft_interrupts;
    Some(ticks.saturating_mul(1_000_000_000 / ticks_per_second.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_is_all_but_idle_and_waiting() {
        let stat = "cpu  100 1 20 5000 70 3 4 9 0 0\ncpu0 50 0 10 2500 35 1 2 4 0 0\n";
        assert_eq!(cpu_time(stat, 100), Some(1_280_000_000));
        assert_eq!(cpu_time("cpu0 1 2 3\n", 100), None);
    }

    #[test]
    fn this_machine_uses_time_and_memory() {
        let usage = MachineUsage::read().unwrap();
        assert!(
            usage.cpu_nanoseconds > 0 && usage.working_set_bytes > 0,
            "{usage:?}"
        );
    }
}

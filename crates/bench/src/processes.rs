//! CPU time and resident memory of a process, by the kernel.
//!
//! Another process is read from `/proc/<pid>/stat`, whose tick is a hundredth of a second: measure at least a second
//! of work. This process is read from its CPU clocks, in nanoseconds.

use std::{fs, time::Duration};

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

/// The memory of a process at one time, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// All pages in memory, shared code included.
    pub(crate) resident: u64,
    /// Pages without a backing file: heap and stacks.
    pub(crate) anonymous: u64,
    /// The most that `resident` has ever been.
    pub(crate) peak: u64,
}

/// User and system time that a process, with all its threads, has used so far.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let ticks = cpu_ticks(&stat).with_context(|| format!("parsing {path}: {stat:?}"))?;
    Ok(Duration::from_secs_f64(
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
    ))
}

/// CPU time of this process so far.
pub(crate) fn own_cpu_time() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

/// CPU time of the calling thread so far.
pub(crate) fn thread_cpu_time() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

/// The load average of the last minute. Measurements at a load above one are noisy.
pub(crate) fn load_average() -> Result<f64> {
    let text = fs::read_to_string("/proc/loadavg").context("reading /proc/loadavg")?;
    let first = text
        .split_ascii_whitespace()
        .next()
        .context("/proc/loadavg is empty")?;
    first
        .parse()
        .with_context(|| format!("parsing /proc/loadavg: {text:?}"))
}

/// Memory of a process now.
pub(crate) fn memory(pid: u32) -> Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    parse_memory(&status).with_context(|| format!("{path} does not have VmRSS, RssAnon and VmHWM"))
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The command name may hold spaces and brackets, so fields are counted from its last closing bracket.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    Some(user + system)
}

fn parse_memory(status: &str) -> Option<Memory> {
    Some(Memory {
        resident: kilobytes(status, "VmRSS:")?,
        anonymous: kilobytes(status, "RssAnon:")?,
        peak: kilobytes(status, "VmHWM:")?,
    })
}

fn kilobytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_ticks(stat: &str, expected: Option<u64>) {
        assert_eq!(cpu_ticks(stat), expected);
    }

    #[test]
    fn user_and_system_ticks_are_added() {
        check_ticks("7 (x) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0 20 0 1 0 99", Some(42));
    }

    #[test]
    fn a_command_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        check_ticks("7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 1 2 0 0", Some(3));
    }

    #[test]
    fn a_short_line_is_rejected() {
        check_ticks("7 (x) S 1 2", None);
    }

    #[test]
    fn resident_and_anonymous_memory_are_read_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t    4096 kB\nVmRSS:\t    2048 kB\nRssAnon:\t    1024 kB\n";
        assert_eq!(
            parse_memory(status),
            Some(Memory {
                resident: 2 << 20,
                anonymous: 1 << 20,
                peak: 4 << 20,
            })
        );
    }

    #[test]
    fn this_process_has_memory_and_cpu_time() {
        let pid = std::process::id();
        assert!(memory(pid).unwrap().resident > 0);
        assert!(cpu_time(pid).is_ok());
        assert!(own_cpu_time() >= thread_cpu_time());
    }
}

//! Memory and CPU time of this process, and delays.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// The CPU time this process has used, in microseconds.
pub(crate) fn cpu_micros() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// The resident memory of this process and its peak, in KiB.
pub(crate) fn memory_kib() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        number.unwrap_or(0)
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// Microseconds since 1970, the same for every process of the machine.
pub(crate) fn now_micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// A percentile of sorted values, in thousandths.
pub(crate) fn percentile(sorted: &[u64], per_mille: usize) -> u64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * per_mille / 1000).copied().unwrap_or(0)
}

/// The load average of the last minute.
pub(crate) fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|load| load.parse().ok())
        .unwrap_or(0.0)
}

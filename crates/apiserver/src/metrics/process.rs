//! Prometheus metrics of the process.

use std::fs;

use super::{MetricsSource, TextEncoder};

/// The process, by `/proc/self`.
#[derive(Debug)]
pub struct ProcessMetrics;

impl MetricsSource for ProcessMetrics {
    fn write(&self, text: &mut TextEncoder) {
        let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let page = rustix::param::page_size() as u64;
        let mut pages = pages
            .split_whitespace()
            .filter_map(|count| count.parse::<u64>().ok());
        for (name, help) in [
            ("process_virtual_memory_bytes", "Address space of the process."),
            ("process_resident_memory_bytes", "Resident memory of the process."),
        ] {
            if let Some(count) = pages.next() {
                text.family(name, "gauge", help);
                text.sample(name, &[], count * page);
            }
        }
        if let Some(seconds) = cpu_seconds() {
            text.family("process_cpu_seconds_total", "counter", "CPU time of the process.");
            text.sample("process_cpu_seconds_total", &[], seconds);
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            text.family("process_open_fds", "gauge", "Open files of the process.");
            text.sample("process_open_fds", &[], files.count());
        }
    }
}

/// Resident memory of the process.
pub(crate) fn resident_bytes() -> Option<u64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let resident: u64 = pages.split_whitespace().nth(1)?.parse().ok()?;
    Some(resident * rustix::param::page_size() as u64)
}

/// User and system time. The process name may contain blanks, so fields are counted from after it.
#[allow(clippy::cast_precision_loss, reason = "a sum of seconds need not be exact")]
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

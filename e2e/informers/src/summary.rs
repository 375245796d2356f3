//! The medians of all rounds, and their ratios.

use std::collections::BTreeMap;

use serde_json::Value;

/// The compared fields of a line.
const FIELDS: [&str; 8] = [
    "sync_ms",
    "sync_cpu_ms",
    "memory_mib",
    "peak_mib",
    "steady_cpu_us",
    "burst_cpu_us",
    "steady_p50_us",
    "steady_p99_us",
];

/// Prints a table of medians to standard error.
pub(crate) fn print(lines: &[Value]) {
    let mut candidates: Vec<String> = Vec::new();
    let mut medians: BTreeMap<(String, &str), f64> = BTreeMap::new();
    for line in lines {
        let name = name(line);
        if !candidates.contains(&name) {
            candidates.push(name);
        }
    }
    for candidate in &candidates {
        for field in FIELDS {
            let own_lines = lines.iter().filter(|line| name(line) == *candidate);
            let values = own_lines.filter_map(|line| line[field].as_f64()).collect();
            medians.insert((candidate.clone(), field), median(values));
        }
    }
    eprint!("{:<22}", "");
    FIELDS.iter().for_each(|field| eprint!("{field:>15}"));
    eprintln!();
    for candidate in &candidates {
        eprint!("{candidate:<22}");
        for field in FIELDS {
            eprint!("{:>15.1}", medians[&(candidate.clone(), field)]);
        }
        eprintln!();
    }
    for other in candidates.iter().filter(|name| name.starts_with("kube")) {
        for own in candidates.iter().filter(|name| name.starts_with("setpoint")) {
            if number(own) != number(other) {
                continue;
            }
            let ratio = |field| medians[&(other.clone(), field)] / medians[&(own.clone(), field)];
            eprintln!(
                "{other} takes {:.1} times the CPU per steady event, {:.1} per event of a burst, and {:.1} times the memory \
                 (peak {:.1}) of {own}",
                ratio("steady_cpu_us"),
                ratio("burst_cpu_us"),
                ratio("memory_mib"),
                ratio("peak_mib"),
            );
        }
    }
}

fn name(line: &Value) -> String {
    format!(
        "{}:{}",
        line["library"].as_str().unwrap_or_default(),
        line["consumers"]
    )
}

fn number(candidate: &str) -> &str {
    candidate.split_once(':').map_or("", |(_, number)| number)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

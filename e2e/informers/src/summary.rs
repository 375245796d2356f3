//! The medians of all turns, and what they are of each other.

use std::collections::BTreeMap;

use serde_json::Value;

/// What is compared, by its name in a line.
const MEASURED: [&str; 8] = [
    "sync_ms",
    "sync_cpu_ms",
    "memory_mib",
    "peak_mib",
    "steady_cpu_us",
    "burst_cpu_us",
    "steady_p50_us",
    "steady_p99_us",
];

/// A table of medians, on standard error.
pub(crate) fn tell(lines: &[Value]) {
    let mut contenders: Vec<String> = Vec::new();
    let mut medians: BTreeMap<(String, &str), f64> = BTreeMap::new();
    for line in lines {
        let name = name(line);
        if !contenders.contains(&name) {
            contenders.push(name);
        }
    }
    for contender in &contenders {
        for measured in MEASURED {
            let of_it = lines.iter().filter(|line| name(line) == *contender);
            let values = of_it.filter_map(|line| line[measured].as_f64()).collect();
            medians.insert((contender.clone(), measured), median(values));
        }
    }
    eprint!("{:<22}", "");
    MEASURED.iter().for_each(|measured| eprint!("{measured:>15}"));
    eprintln!();
    for contender in &contenders {
        eprint!("{contender:<22}");
        for measured in MEASURED {
            eprint!("{:>15.1}", medians[&(contender.clone(), measured)]);
        }
        eprintln!();
    }
    for other in contenders.iter().filter(|name| name.starts_with("kube")) {
        for own in contenders.iter().filter(|name| name.starts_with("setpoint")) {
            if number(own) != number(other) {
                continue;
            }
            let of = |measured| medians[&(other.clone(), measured)] / medians[&(own.clone(), measured)];
            eprintln!(
                "{other} takes {:.1} times the CPU per steady event, {:.1} per event of a burst, and {:.1} times the memory \
                 (peak {:.1}) of {own}",
                of("steady_cpu_us"),
                of("burst_cpu_us"),
                of("memory_mib"),
                of("peak_mib"),
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

fn number(contender: &str) -> &str {
    contender.split_once(':').map_or("", |(_, number)| number)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

//! Go templates: any text parses or is an error, and an execution stops at its limits.

use setpoint_template::{Environment, Functions, Limits, Template, Value};

use super::Target;
use crate::corpus;

pub(super) const TARGET: Target = Target {
    name: "template",
    cost: 5,
    seeds: || corpus::lines("templates.txt"),
    run,
};

/// Small limits, so that an input takes milliseconds.
const LIMITS: Limits = Limits {
    output_bytes: 64 << 10,
    steps: 200_000,
    depth: 100,
};

fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let template = Template::new("fuzz")
        .with_functions(Functions::sprig())
        .with_limits(LIMITS);
    let Ok(template) = template.parse(text) else {
        return;
    };
    let data = serde_json::json!({
        "name": "web", "count": 3, "ratio": 2.5, "on": true, "none": null,
        "letters": ["a", "b", "c"], "numbers": [3, 1, 2], "map": {"a": 1, "b": {"c": "deep"}},
    });
    if let Ok(out) = template.render(Value::from(&data), &Environment::default()) {
        assert!(
            out.len() <= LIMITS.output_bytes,
            "{text:?} renders {} bytes",
            out.len()
        );
    }
}

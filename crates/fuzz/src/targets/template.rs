//! Go templates: any text parses or is an error, and an execution stops at its limits.

use setpoint_template::{Environment, Functions, Limits, Template, Value};

use super::Target;
use crate::corpus;

pub(super) const TARGET: Target = Target {
    name: "template",
    cost: 5,
    seeds: || [corpus::lines("templates.txt"), corpus::recorded_templates()].concat(),
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
        // The names in the recorded templates.
        "s": "hello", "e": "", "n": 3, "z": 0, "f": 2.5, "t": true, "u": false, "nil": null,
        "l": ["a", "b", "c"], "nums": [3, 1, 2], "el": [], "em": {}, "m": {"a": 1, "b": {"c": "deep", "d": [1]}},
        "h": "<a href=\"x\">'&'</a>", "uni": "h\u{e9}llo \u{2713}", "ml": "one\ntwo\n",
    });
    if let Ok(out) = template.render(Value::from(&data), &Environment::default()) {
        assert!(
            out.len() <= LIMITS.output_bytes,
            "{text:?} renders {} bytes",
            out.len()
        );
    }
}

//! Conversion of metrics between `autoscaling/v2` and `v1`: the same values under different field names.

use setpoint_schema::Tree;

/// For each metric type, the field paths of its values: in v1, and in v2.
pub(super) type FieldMapping =
    &'static [(&'static str, &'static [(&'static str, &'static [&'static str])])];

const NAME: &[&str] = &["metric", "name"];
const SELECTOR: &[&str] = &["metric", "selector"];
const DESCRIBED: &[&str] = &["describedObject"];

/// The fields of metric sources in the spec.
pub(super) const SOURCES: FieldMapping = &[
    (
        "object",
        &[
            ("target", DESCRIBED),
            ("metricName", NAME),
            ("targetValue", &["target", "value"]),
            ("selector", SELECTOR),
            ("averageValue", &["target", "averageValue"]),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", NAME),
            ("targetAverageValue", &["target", "averageValue"]),
            ("selector", SELECTOR),
        ],
    ),
    (
        "resource",
        &[
            ("name", &["name"]),
            ("targetAverageUtilization", &["target", "averageUtilization"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", &["name"]),
            ("targetAverageUtilization", &["target", "averageUtilization"]),
            ("targetAverageValue", &["target", "averageValue"]),
            ("container", &["container"]),
        ],
    ),
    (
        "external",
        &[
            ("metricName", NAME),
            ("metricSelector", SELECTOR),
            ("targetValue", &["target", "value"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
    ),
];

/// The fields of current metrics in the status.
pub(super) const STATUSES: FieldMapping = &[
    (
        "object",
        &[
            ("target", DESCRIBED),
            ("metricName", NAME),
            ("currentValue", &["current", "value"]),
            ("selector", SELECTOR),
            ("averageValue", &["current", "averageValue"]),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", NAME),
            ("currentAverageValue", &["current", "averageValue"]),
            ("selector", SELECTOR),
        ],
    ),
    (
        "resource",
        &[
            ("name", &["name"]),
            ("currentAverageUtilization", &["current", "averageUtilization"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", &["name"]),
            ("currentAverageUtilization", &["current", "averageUtilization"]),
            ("currentAverageValue", &["current", "averageValue"]),
            ("container", &["container"]),
        ],
    ),
    (
        "external",
        &[
            ("metricName", NAME),
            ("metricSelector", SELECTOR),
            ("currentValue", &["current", "value"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    ),
];

/// Quantities that v1 always writes: an absent one is zero.
const ALWAYS: &[(&str, &str)] = &[
    ("object", "targetValue"),
    ("object", "currentValue"),
    ("pods", "targetAverageValue"),
    ("pods", "currentAverageValue"),
    ("resource", "currentAverageValue"),
    ("containerResource", "currentAverageValue"),
    ("external", "currentValue"),
];

/// Converts a metric from v2 to v1.
pub(super) fn to_v1(measure: &mut Tree, mapping: FieldMapping) {
    for (metric_type, fields) in mapping {
        let Some(source) = measure.find_mut(metric_type) else {
            continue;
        };
        let mut flat = Tree::default();
        for (name, path) in *fields {
            if let Some(value) = source.at(path).filter(|value| !value.is_null()) {
                flat.set(&[name], value.clone());
            }
        }
        *source = flat;
    }
}

/// Converts a metric from v1 to v2.
pub(super) fn to_v2(measure: &mut Tree, mapping: FieldMapping) {
    for (metric_type, fields) in mapping {
        let Some(source) = measure.find_mut(metric_type) else {
            continue;
        };
        let mut converted = Tree::default();
        for (name, path) in *fields {
            let value = source.get(name).filter(|value| !value.is_null()).cloned();
            let zero = ALWAYS.contains(&(*metric_type, *name)).then(|| Tree::from("0"));
            if let Some(value) = value.or(zero) {
                converted.set(path, value);
            }
        }
        if converted.get("target").is_some() {
            set_target_type(metric_type, &mut converted);
        }
        *source = converted;
    }
}

/// Sets the type of a target, which v1 does not have, by which value is set.
fn set_target_type(metric_type: &str, source: &mut Tree) {
    let is_set = |field: &str| source.at(&["target", field]).is_some();
    let average = is_set("averageValue");
    let kind = match metric_type {
        _ if is_set("averageUtilization") => "Utilization",
        "object" if !average => "Value",
        "external" if is_set("value") => "Value",
        _ => "AverageValue",
    };
    let nothing = source.str_at(&["target", "value"]) == Some("0");
    if metric_type == "object" && average && nothing {
        source.take(&["target", "value"]);
    }
    source.set(&["target", "type"], kind);
}

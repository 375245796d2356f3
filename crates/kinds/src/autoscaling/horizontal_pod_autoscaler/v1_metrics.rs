//! Conversion of metrics between `autoscaling/v2` and `v1`: the same values under different field names.

use setpoint_schema::{Tree, fields};

/// For each metric type, the field paths of its values: in v1, and in v2.
pub(super) type FieldMapping =
    &'static [(&'static str, &'static [(&'static str, &'static [&'static str])])];

const NAME: &[&str] = &[fields::METRIC, fields::NAME];
const SELECTOR: &[&str] = &[fields::METRIC, fields::SELECTOR];
const DESCRIBED: &[&str] = &[fields::DESCRIBED_OBJECT];

/// The fields of metric sources in the spec.
pub(super) const SOURCES: FieldMapping = &[
    (
        fields::OBJECT,
        &[
            (fields::TARGET, DESCRIBED),
            (fields::METRIC_NAME, NAME),
            (fields::TARGET_VALUE, &[fields::TARGET, fields::VALUE]),
            (fields::SELECTOR, SELECTOR),
            (fields::AVERAGE_VALUE, &[fields::TARGET, fields::AVERAGE_VALUE]),
        ],
    ),
    (
        fields::PODS,
        &[
            (fields::METRIC_NAME, NAME),
            (
                fields::TARGET_AVERAGE_VALUE,
                &[fields::TARGET, fields::AVERAGE_VALUE],
            ),
            (fields::SELECTOR, SELECTOR),
        ],
    ),
    (
        fields::RESOURCE,
        &[
            (fields::NAME, &[fields::NAME]),
            (
                fields::TARGET_AVERAGE_UTILIZATION,
                &[fields::TARGET, fields::AVERAGE_UTILIZATION],
            ),
            (
                fields::TARGET_AVERAGE_VALUE,
                &[fields::TARGET, fields::AVERAGE_VALUE],
            ),
        ],
    ),
    (
        fields::CONTAINER_RESOURCE,
        &[
            (fields::NAME, &[fields::NAME]),
            (
                fields::TARGET_AVERAGE_UTILIZATION,
                &[fields::TARGET, fields::AVERAGE_UTILIZATION],
            ),
            (
                fields::TARGET_AVERAGE_VALUE,
                &[fields::TARGET, fields::AVERAGE_VALUE],
            ),
            (fields::CONTAINER, &[fields::CONTAINER]),
        ],
    ),
    (
        fields::EXTERNAL,
        &[
            (fields::METRIC_NAME, NAME),
            (fields::METRIC_SELECTOR, SELECTOR),
            (fields::TARGET_VALUE, &[fields::TARGET, fields::VALUE]),
            (
                fields::TARGET_AVERAGE_VALUE,
                &[fields::TARGET, fields::AVERAGE_VALUE],
            ),
        ],
    ),
];

/// The fields of current metrics in the status.
pub(super) const STATUSES: FieldMapping = &[
    (
        fields::OBJECT,
        &[
            (fields::TARGET, DESCRIBED),
            (fields::METRIC_NAME, NAME),
            (fields::CURRENT_VALUE, &[fields::CURRENT, fields::VALUE]),
            (fields::SELECTOR, SELECTOR),
            (fields::AVERAGE_VALUE, &[fields::CURRENT, fields::AVERAGE_VALUE]),
        ],
    ),
    (
        fields::PODS,
        &[
            (fields::METRIC_NAME, NAME),
            (
                fields::CURRENT_AVERAGE_VALUE,
                &[fields::CURRENT, fields::AVERAGE_VALUE],
            ),
            (fields::SELECTOR, SELECTOR),
        ],
    ),
    (
        fields::RESOURCE,
        &[
            (fields::NAME, &[fields::NAME]),
            (
                fields::CURRENT_AVERAGE_UTILIZATION,
                &[fields::CURRENT, fields::AVERAGE_UTILIZATION],
            ),
            (
                fields::CURRENT_AVERAGE_VALUE,
                &[fields::CURRENT, fields::AVERAGE_VALUE],
            ),
        ],
    ),
    (
        fields::CONTAINER_RESOURCE,
        &[
            (fields::NAME, &[fields::NAME]),
            (
                fields::CURRENT_AVERAGE_UTILIZATION,
                &[fields::CURRENT, fields::AVERAGE_UTILIZATION],
            ),
            (
                fields::CURRENT_AVERAGE_VALUE,
                &[fields::CURRENT, fields::AVERAGE_VALUE],
            ),
            (fields::CONTAINER, &[fields::CONTAINER]),
        ],
    ),
    (
        fields::EXTERNAL,
        &[
            (fields::METRIC_NAME, NAME),
            (fields::METRIC_SELECTOR, SELECTOR),
            (fields::CURRENT_VALUE, &[fields::CURRENT, fields::VALUE]),
            (
                fields::CURRENT_AVERAGE_VALUE,
                &[fields::CURRENT, fields::AVERAGE_VALUE],
            ),
        ],
    ),
];

/// Quantities that v1 always writes: an absent one is zero.
const ALWAYS: &[(&str, &str)] = &[
    (fields::OBJECT, fields::TARGET_VALUE),
    (fields::OBJECT, fields::CURRENT_VALUE),
    (fields::PODS, fields::TARGET_AVERAGE_VALUE),
    (fields::PODS, fields::CURRENT_AVERAGE_VALUE),
    (fields::RESOURCE, fields::CURRENT_AVERAGE_VALUE),
    (fields::CONTAINER_RESOURCE, fields::CURRENT_AVERAGE_VALUE),
    (fields::EXTERNAL, fields::CURRENT_VALUE),
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
        if converted.get(fields::TARGET).is_some() {
            set_target_type(metric_type, &mut converted);
        }
        *source = converted;
    }
}

/// Sets the type of a target, which v1 does not have, by which value is set.
fn set_target_type(metric_type: &str, source: &mut Tree) {
    let is_set = |field: &str| source.at(&[fields::TARGET, field]).is_some();
    let average = is_set(fields::AVERAGE_VALUE);
    let kind = match metric_type {
        _ if is_set(fields::AVERAGE_UTILIZATION) => "Utilization",
        fields::OBJECT if !average => "Value",
        fields::EXTERNAL if is_set(fields::VALUE) => "Value",
        _ => "AverageValue",
    };
    let nothing = source.str_at(&[fields::TARGET, fields::VALUE]) == Some("0");
    if metric_type == fields::OBJECT && average && nothing {
        source.take(&[fields::TARGET, fields::VALUE]);
    }
    source.set(&[fields::TARGET, fields::TYPE], kind);
}

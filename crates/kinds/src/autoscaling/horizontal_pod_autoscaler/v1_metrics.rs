//! Measures as version 1 writes them: the same facts as in version 2, each under one flat name.

use setpoint_schema::Tree;

/// For each sort of measure, where its facts stand: in version 1, and in version 2.
pub(super) type Places = &'static [(&'static str, &'static [(&'static str, &'static [&'static str])])];

const NAME: &[&str] = &["metric", "name"];
const SELECTOR: &[&str] = &["metric", "selector"];
const DESCRIBED: &[&str] = &["describedObject"];

/// Where the facts of what is to be measured stand.
pub(super) const SOURCES: Places = &[
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

/// Where the facts of what has been measured stand.
pub(super) const STATUSES: Places = &[
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

/// Amounts that version 1 always writes, so that one that is not there is a zero.
const ALWAYS: &[(&str, &str)] = &[
    ("object", "targetValue"),
    ("object", "currentValue"),
    ("pods", "targetAverageValue"),
    ("pods", "currentAverageValue"),
    ("resource", "currentAverageValue"),
    ("containerResource", "currentAverageValue"),
    ("external", "currentValue"),
];

/// Makes a measure of version 2 one of version 1.
pub(super) fn outwards(measure: &mut Tree, places: Places) {
    for (sort, facts) in places {
        let Some(source) = measure.find_mut(sort) else {
            continue;
        };
        let mut flat = Tree::default();
        for (name, path) in *facts {
            if let Some(fact) = source.at(path).filter(|fact| !fact.is_null()) {
                flat.set(&[name], fact.clone());
            }
        }
        *source = flat;
    }
}

/// Makes a measure of version 1 one of version 2.
pub(super) fn inwards(measure: &mut Tree, places: Places) {
    for (sort, facts) in places {
        let Some(source) = measure.find_mut(sort) else {
            continue;
        };
        let mut deep = Tree::default();
        for (name, path) in *facts {
            let fact = source.get(name).filter(|fact| !fact.is_null()).cloned();
            let zero = ALWAYS.contains(&(*sort, *name)).then(|| Tree::from("0"));
            if let Some(fact) = fact.or(zero) {
                deep.set(path, fact);
            }
        }
        if deep.get("target").is_some() {
            settle_target(sort, &mut deep);
        }
        *source = deep;
    }
}

/// Version 1 does not say of which type a target is; what is given tells.
fn settle_target(sort: &str, source: &mut Tree) {
    let given = |field: &str| source.at(&["target", field]).is_some();
    let average = given("averageValue");
    let kind = match sort {
        _ if given("averageUtilization") => "Utilization",
        "object" if !average => "Value",
        "external" if given("value") => "Value",
        _ => "AverageValue",
    };
    let nothing = source.str_at(&["target", "value"]) == Some("0");
    if sort == "object" && average && nothing {
        source.take(&["target", "value"]);
    }
    source.set(&["target", "type"], kind);
}

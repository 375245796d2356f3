//! Strict decoding: fields that do not exist are errors, with their paths.

use serde_json::Value;

use super::ConfigError;

/// The fields of an object, and the shape of those that are objects or lists of objects.
enum Shape {
    /// Any value.
    Any,
    Object(&'static [(&'static str, &'static Shape)]),
    List(&'static Shape),
}

use Shape::{Any, List, Object};

static PLUGIN: Shape = Object(&[("name", &Any), ("weight", &Any)]);
static PLUGIN_LIST: Shape = List(&PLUGIN);
static PLUGIN_SET: Shape = Object(&[("enabled", &PLUGIN_LIST), ("disabled", &PLUGIN_LIST)]);
static PLUGINS: Shape = Object(&[
    ("preEnqueue", &PLUGIN_SET),
    ("queueSort", &PLUGIN_SET),
    ("preFilter", &PLUGIN_SET),
    ("filter", &PLUGIN_SET),
    ("postFilter", &PLUGIN_SET),
    ("preScore", &PLUGIN_SET),
    ("score", &PLUGIN_SET),
    ("reserve", &PLUGIN_SET),
    ("permit", &PLUGIN_SET),
    ("preBind", &PLUGIN_SET),
    ("bind", &PLUGIN_SET),
    ("postBind", &PLUGIN_SET),
    ("multiPoint", &PLUGIN_SET),
    ("placementGenerate", &PLUGIN_SET),
    ("placementScore", &PLUGIN_SET),
    ("podGroupPostFilter", &PLUGIN_SET),
]);
static PLUGIN_CONFIG: Shape = List(&Object(&[("name", &Any), ("args", &Any)]));
static PROFILE: Shape = Object(&[
    ("schedulerName", &Any),
    ("percentageOfNodesToScore", &Any),
    ("plugins", &PLUGINS),
    ("pluginConfig", &PLUGIN_CONFIG),
]);
static EXTENDER: Shape = Object(&[
    ("urlPrefix", &Any),
    ("filterVerb", &Any),
    ("preemptVerb", &Any),
    ("prioritizeVerb", &Any),
    ("weight", &Any),
    ("bindVerb", &Any),
    ("enableHTTPS", &Any),
    (
        "tlsConfig",
        &Object(&[
            ("insecure", &Any),
            ("serverName", &Any),
            ("certFile", &Any),
            ("keyFile", &Any),
            ("caFile", &Any),
            ("certData", &Any),
            ("keyData", &Any),
            ("caData", &Any),
        ]),
    ),
    ("httpTimeout", &Any),
    ("nodeCacheCapable", &Any),
    (
        "managedResources",
        &List(&Object(&[("name", &Any), ("ignoredByScheduler", &Any)])),
    ),
    ("ignorable", &Any),
]);
static CONFIGURATION: Shape = Object(&[
    ("apiVersion", &Any),
    ("kind", &Any),
    ("parallelism", &Any),
    ("leaderElection", &Any),
    ("clientConnection", &Any),
    ("enableProfiling", &Any),
    ("enableContentionProfiling", &Any),
    ("percentageOfNodesToScore", &Any),
    ("podInitialBackoffSeconds", &Any),
    ("podMaxBackoffSeconds", &Any),
    ("profiles", &List(&PROFILE)),
    ("extenders", &List(&EXTENDER)),
    ("delayCacheUntilActive", &Any),
]);

static RESOURCES: Shape = List(&Object(&[("name", &Any), ("weight", &Any)]));
static SHAPE_POINTS: Shape = List(&Object(&[("utilization", &Any), ("score", &Any)]));
static SCORING_STRATEGY: Shape = Object(&[
    ("type", &Any),
    ("resources", &RESOURCES),
    ("requestedToCapacityRatio", &Object(&[("shape", &SHAPE_POINTS)])),
]);

/// The arguments of each plugin that has some.
static ARGS: &[(&str, &[(&str, &Shape)])] = &[
    (
        "DefaultPreemption",
        &[
            ("minCandidateNodesPercentage", &Any),
            ("minCandidateNodesAbsolute", &Any),
        ],
    ),
    (
        "DynamicResources",
        &[("filterTimeout", &Any), ("bindingTimeout", &Any)],
    ),
    (
        "InterPodAffinity",
        &[
            ("hardPodAffinityWeight", &Any),
            ("ignorePreferredTermsOfExistingPods", &Any),
        ],
    ),
    ("NodeAffinity", &[("addedAffinity", &Any)]),
    ("NodeResourcesBalancedAllocation", &[("resources", &RESOURCES)]),
    (
        "NodeResourcesFit",
        &[
            ("ignoredResources", &Any),
            ("ignoredResourceGroups", &Any),
            ("scoringStrategy", &SCORING_STRATEGY),
        ],
    ),
    (
        "PodTopologySpread",
        &[("defaultConstraints", &Any), ("defaultingType", &Any)],
    ),
    (
        "VolumeBinding",
        &[("bindTimeoutSeconds", &Any), ("shape", &SHAPE_POINTS)],
    ),
];

/// Fails if the object has a field that does not exist.
pub(super) fn check(object: &Value) -> Result<(), ConfigError> {
    let mut unknown = Vec::new();
    find_unknown(object, &CONFIGURATION, "", &mut unknown);
    fail(&unknown)?;
    let profiles = object["profiles"].as_array().into_iter().flatten();
    let mut errors = Vec::new();
    for (profile, object) in profiles.enumerate() {
        let configs = object["pluginConfig"].as_array().into_iter().flatten();
        for (index, config) in configs.enumerate() {
            let path = format!("decoding .profiles[{profile}].pluginConfig[{index}]: ");
            if let Err(ConfigError(error)) = check_args(config) {
                errors.push(format!("{path}{error}"));
            }
        }
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(ConfigError(format!(
            "strict decoding error: {}",
            errors.join(", ")
        ))),
    }
}

fn check_args(config: &Value) -> Result<(), ConfigError> {
    let name = config["name"].as_str().unwrap_or_default();
    let (Some((_, fields)), Some(args)) = (
        ARGS.iter().find(|(own, _)| *own == name),
        config["args"].as_object(),
    ) else {
        return Ok(());
    };
    let mut unknown = Vec::new();
    for (field, value) in args {
        match fields.iter().find(|(own, _)| own == field) {
            Some((_, shape)) => find_unknown(value, shape, field, &mut unknown),
            None if matches!(field.as_str(), "apiVersion" | "kind") => {}
            None => unknown.push(field.clone()),
        }
    }
    fail(&unknown)
}

fn find_unknown(value: &Value, shape: &Shape, path: &str, unknown: &mut Vec<String>) {
    match (shape, value) {
        (Object(fields), Value::Object(members)) => {
            for (name, member) in members {
                let path = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                match fields.iter().find(|(own, _)| own == name) {
                    Some((_, shape)) => find_unknown(member, shape, &path, unknown),
                    None => unknown.push(path),
                }
            }
        }
        (List(shape), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                find_unknown(item, shape, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

fn fail(unknown: &[String]) -> Result<(), ConfigError> {
    let errors: Vec<String> = unknown
        .iter()
        .map(|path| format!("unknown field {path:?}"))
        .collect();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(ConfigError(format!(
            "strict decoding error: {}",
            errors.join(", ")
        ))),
    }
}
